//! Reading agents' answers: the reply of a call, completion tags, and JSON in a given form.

pub mod completion;
pub mod reply_fold;
pub mod structured_output;
