//! The engine spoken in MCP.
