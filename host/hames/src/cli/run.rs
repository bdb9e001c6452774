//! `hames run`: one turn.

use std::io::Read;
use std::path::Path;

use hames_core::turn::UserInput;
use hames_core::types::{Image, MAX_IMAGE_BYTES};

use super::args::RunArgs;
use super::drive::{self, Driver};
use super::interrupt::Interrupts;
use super::start::{CliError, Start};

/// A prompt from standard input is not longer than this: beyond it, no model reads it whole.
const MAX_PROMPT_BYTES: u64 = 8 * 1024 * 1024;

pub(super) async fn run(start: &Start, args: &RunArgs, interrupts: &Interrupts) -> Result<u8, CliError> {
    let prompt = if args.prompt == "-" { read_prompt()? } else { args.prompt.clone() };
    if prompt.trim().is_empty() {
        return Err(CliError::input("the prompt is empty", "hames run \"what is in this folder?\""));
    }
    let images = args.images.iter().map(|path| image(path)).collect::<Result<_, _>>()?;
    let mut driver = Driver::open(start, interrupts, args.session.as_deref()).await?;
    let end = driver.turn(UserInput::text(prompt).showing(images)).await?;
    let status = drive::status(&end, interrupts);
    if status != 0 && !start.console.is_json() {
        start.console.note(&format!("go on with: hames run --session {} \"…\"", driver.session.id()));
    }
    driver.finish().await;
    Ok(status)
}

fn image(path: &Path) -> Result<Image, CliError> {
    let name = format!("the image `{}`", path.display());
    let failed = |source| CliError::unreadable(&name, source);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_IMAGE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Image::new(&bytes).map_err(|error| {
        let what = format!("`{}` cannot be shown: {error}", path.display());
        CliError::input(what, "convert it to PNG or JPEG, or make it smaller")
    })
}

fn read_prompt() -> Result<String, CliError> {
    let mut text = String::new();
    let failed = |source| CliError::unreadable("the prompt from standard input", source);
    let read =
        std::io::stdin().lock().take(MAX_PROMPT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > MAX_PROMPT_BYTES {
        let message = format!("the prompt on standard input is longer than {MAX_PROMPT_BYTES} bytes");
        return Err(CliError::input(message, "put it into a file of the workspace and ask about the file"));
    }
    Ok(text)
}
