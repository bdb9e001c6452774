//! Programs that embed hames, one file each below `bin/`:
//!
//! - `embed_minimal`: one turn, its text printed as it comes
//! - `own_tool`: a tool of the embedder's own, behind the same gate as every plugin
//! - `watch_events`: what observers see, and an interrupt
//! - `say_meanwhile`: what the user says while a turn runs, and a post-turn hook
