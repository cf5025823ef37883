#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pkm_transport::fuzzing::http_body(bytes));
