"""C text to callable: the toolchain, its probe, the cache of libraries, loading, threads.

The only room that runs other programs and that knows cffi. `load.build` is the way in:
a `Source` and a `Toolchain` become a `Library` whose `function` is the compiled entry.
"""
