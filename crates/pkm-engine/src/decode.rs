//! Turns a file's bytes into text, never lossy in silence.
