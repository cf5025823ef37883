//! What is wrong in a log of MCP messages.
