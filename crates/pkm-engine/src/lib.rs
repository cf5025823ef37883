//! What one can ask of notes, in plain data.
