//! Who answers, and how long the answer keeps: said on every result of the revisions that have no
//! handshake to say it in.

use rmcp::model::{
    CacheScope, CallToolResult, CompleteResult, CreateTaskResult, DiscoverResult, GetPromptResult,
    GetTaskResult, Implementation, InputRequiredResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, MetaObject,
    ReadResourceResult,
};

/// How long a client may keep a result, in milliseconds, and for whom.
type Keep = (u64, CacheScope);

/// What changes with the program only, and is the same for everybody.
const PROGRAM: Keep = (300_000, CacheScope::Public);
/// The user's notes, which may change at any moment.
const NOTES: Keep = (0, CacheScope::Private);

/// The part of a result's `_meta` that names the server. What it looks like and does is said by
/// the discovery; here it would be longer than many a result.
pub(crate) fn identity(server: &Implementation) -> MetaObject {
    let server = serde_json::to_value(server).expect("a name and strings can be written");
    let mut meta = MetaObject::new();
    meta.insert("io.modelcontextprotocol/serverInfo".into(), server);
    meta
}

/// A result that can say who gave it and how long it keeps.
pub(crate) trait Sign {
    fn sign(&mut self, identity: MetaObject);
}

macro_rules! sign {
    ($($result:ty $(, $keep:expr)?;)*) => {$(
        impl Sign for $result {
            fn sign(&mut self, identity: MetaObject) {
                self.meta = Some(identity);
                $((self.ttl_ms, self.cache_scope) = (Some($keep.0), Some($keep.1));)?
            }
        }
    )*};
}

sign! {
    ListToolsResult, PROGRAM;
    ListPromptsResult, PROGRAM;
    ListResourceTemplatesResult, PROGRAM;
    ListResourcesResult, NOTES;
    ReadResourceResult, NOTES;
    CallToolResult;
    CreateTaskResult;
    InputRequiredResult;
    GetTaskResult;
    GetPromptResult;
    CompleteResult;
}

/// The discovery, which names the server whole and keeps like the lists of the program.
pub(crate) fn discovered(discovery: DiscoverResult) -> DiscoverResult {
    discovery.with_ttl_ms(PROGRAM.0).with_cache_scope(PROGRAM.1)
}
