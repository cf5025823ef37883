//! Reads a Markdown folder for import and writes one for export.
