//! `hames plugin add`: copies a plugin below the user's configuration and, when told to, grants what it asks for.
//!
//! A plugin that works is never replaced by one that the policy would refuse: what cannot be granted is not copied.

use std::path::Path;

use hames_core::gate::{Capabilities, StoreCapability};
use hames_wasm::{Digest, Manifest, Plugin, intersect};

use super::plugin::{in_words, open};
use super::start::{CliError, Start};
use crate::config::{Admission, PluginPolicy};
use crate::harness::plugins;
use crate::session::make_private_dir;

/// Checks a plugin as a load would, settles its grant, then copies manifest and component.
pub(super) async fn add(start: &Start, folder: &Path, grant: bool) -> Result<u8, CliError> {
    let folder = start.settings.environment().current_dir().join(folder);
    let plugin = open(start, &folder).await?;
    refuse_first_party_name(start, &plugin)?;
    let target = start.settings.paths.config_dir.join("plugins").join(plugin.name());
    let (console, policy) = (&start.console, &start.policy);
    let (name, ask, digest) = (plugin.name(), &plugin.manifest().ask, plugin.digest().to_string());
    console.note(&format!("it asks for: {}", in_words(ask)));
    match (policy.admit(name, &digest, ask, false), policy.plugin(name)) {
        (Admission::Granted(granted), _) => {
            console.note(&format!("the policy already grants: {}", in_words(&granted)));
        }
        (Admission::Refused { lines, .. }, None) if grant => {
            append(policy.file(), &lines)?;
            console.note(&format!("granted in {}:", policy.file().display()));
            console.data(lines.trim_end());
        }
        (Admission::Refused { reason, lines }, None) => {
            console.warning(&reason, policy.remedy(name, &folder, &lines).as_deref());
        }
        (Admission::Refused { lines, .. }, Some(entry)) if grant => repin(start, &plugin, entry, &lines)?,
        (Admission::Refused { reason, lines }, Some(_)) => {
            let hint = policy.remedy(name, &folder, &lines);
            return Err(CliError::Input { message: format!("{reason}; nothing was copied"), hint });
        }
    }
    copy(&folder, &target, plugin.manifest())?;
    console.note(&format!("copied to {}", target.display()));
    Ok(0)
}

/// A policy entry counts for a name: one for a foreign plugin would put it in the place of the first-party one.
fn refuse_first_party_name(start: &Start, plugin: &Plugin) -> Result<(), CliError> {
    let (first_party, _) = plugins::find(start.settings.paths.bundle_dir.as_deref(), &[]);
    if first_party.iter().any(|candidate| candidate.folder.file_name() == Some(plugin.name().as_ref())) {
        return Err(CliError::input(
            format!("`{}` is the name of a first-party plugin", plugin.name()),
            "choose another `name` in its plugin.toml",
        ));
    }
    Ok(())
}

/// Pins the rebuilt component in place of the old one. What the entry grants stays as it is, so a plugin that asks for more
/// than it had is refused: a person has to see that.
fn repin(start: &Start, plugin: &Plugin, entry: &PluginPolicy, lines: &str) -> Result<(), CliError> {
    let (policy, name) = (&start.policy, plugin.name());
    let file = policy.file().display();
    let replace = format!("replace the entry of `{name}` in `{file}` by:\n{lines}");
    let new = missing(&plugin.manifest().ask, &known_asks(start, name, entry));
    if new != Capabilities::default() {
        let message = format!(
            "plugin `{name}` asks for more than it was granted: {}; nothing was copied",
            in_words(&new)
        );
        return Err(CliError::input(message, replace));
    }
    let Some(text) = policy.with_digest(name, &plugin.digest().to_string())? else {
        let message = format!("the entry of plugin `{name}` pins no digest; nothing was copied");
        return Err(CliError::input(message, replace));
    };
    std::fs::write(policy.file(), text)
        .map_err(|source| CliError::Io { action: format!("write `{file}`"), source })?;
    start
        .console
        .note(&format!("its digest is replaced in {file}; it is granted: {}", in_words(&entry.grant)));
    Ok(())
}

/// What the entry grants, and what the pinned component asked for: its author may grant less than that for good.
fn known_asks(start: &Start, name: &str, entry: &PluginPolicy) -> Capabilities {
    let mut known = entry.grant.clone();
    let installed = start.settings.paths.config_dir.join("plugins").join(name);
    // silent: without an installed copy only the grants are known.
    let Ok(manifest) = Manifest::read(&installed) else { return known };
    let digest = Digest::of_file(&installed.join(&manifest.component)).map(|digest| digest.to_string());
    if digest.ok() == entry.digest {
        let Capabilities { fs, http, env, secret, clock, random, store } = manifest.ask;
        known.fs.extend(fs);
        known.http.extend(http);
        known.env.extend(env);
        known.secret.extend(secret);
        known.clock |= clock;
        known.random |= random;
        known.store = known.store.into_iter().chain(store).max_by_key(|store| store.max_bytes);
    }
    known
}

/// What of `ask` lies outside `known`.
fn missing(ask: &Capabilities, known: &Capabilities) -> Capabilities {
    fn outside<T: PartialEq>(all: Vec<T>, inside: &[T]) -> Vec<T> {
        all.into_iter().filter(|item| !inside.contains(item)).collect()
    }
    // Both in the normal form that an intersection gives.
    let (all, inside) = (intersect(ask, ask), intersect(ask, known));
    let enough = inside.store.as_ref().map_or(0, |store: &StoreCapability| store.max_bytes);
    Capabilities {
        fs: outside(all.fs, &inside.fs),
        http: outside(all.http, &inside.http),
        env: outside(all.env, &inside.env),
        secret: outside(all.secret, &inside.secret),
        clock: all.clock && !inside.clock,
        random: all.random && !inside.random,
        store: all.store.filter(|store| store.max_bytes > enough),
    }
}

fn copy(folder: &Path, target: &Path, manifest: &Manifest) -> Result<(), CliError> {
    let component = target.join(&manifest.component);
    make_private_dir(component.parent().unwrap_or(target))?;
    // A copy onto itself would empty the files.
    if let (Ok(from), Ok(to)) = (folder.canonicalize(), target.canonicalize())
        && from == to
    {
        return Ok(());
    }
    let pairs = [
        (folder.join(&manifest.component), component),
        (folder.join(hames_wasm::MANIFEST_FILE), target.join(hames_wasm::MANIFEST_FILE)),
    ];
    for (from, to) in pairs {
        std::fs::copy(&from, &to).map_err(|source| CliError::Io {
            action: format!("copy `{}` to `{}`", from.display(), to.display()),
            source,
        })?;
    }
    Ok(())
}

fn append(policy: &Path, lines: &str) -> Result<(), CliError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let failed = |source| CliError::Io { action: format!("append to `{}`", policy.display()), source };
    if let Some(folder) = policy.parent() {
        make_private_dir(folder)?;
    }
    // Whoever may write here grants: nobody else, whatever the umask says.
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(policy).map_err(failed)?;
    let gap = if file.metadata().map_err(failed)?.len() == 0 { "" } else { "\n" };
    file.write_all(format!("{gap}{lines}").as_bytes()).map_err(failed)
}
