//! The integration tests of `report`, all in one program: each module is a topic.

mod report;
