"""Where arrays live: contracted to tiles and numbers, in results, or in slots of the workspace."""
