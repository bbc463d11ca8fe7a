//! The project itself: its documents.

mod docs;
