//! Programs that embed hames.
