// A library needs a source to own the headers that all tests precompile.
