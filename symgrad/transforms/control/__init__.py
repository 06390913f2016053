"""Programs with loops: found in what Python unrolled, joined, trimmed, run within a memory."""
