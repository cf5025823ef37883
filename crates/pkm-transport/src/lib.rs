//! MCP over stdio and HTTP with no request left unanswered.
