//! Bytes in, bytes out: what each transport answers to each kind of input, per revision.

mod batches;
mod front;
mod life;
mod property;
mod support;
mod table;
mod tap;
