//! Effective capabilities: what the plugin asks for *and* the operator grants. Never more than either.
//!
//! Of two that overlap, the narrower is taken, whichever side it is on. What does not parse counts as nothing: fails
//! closed (the files' own parsers report such mistakes).

use std::path::{Component, Path};

use hames_core::gate::{
    Capabilities, EnvCapability, FsCapability, HttpCapability, SecretCapability, StoreCapability,
};

use super::http::{HostPattern, UrlPattern, methods_of};

/// What is both asked and granted.
pub fn intersect(ask: &Capabilities, grant: &Capabilities) -> Capabilities {
    Capabilities {
        fs: pairs(&ask.fs, &grant.fs, intersect_fs),
        http: pairs(&ask.http, &grant.http, intersect_http),
        env: pairs(&ask.env, &grant.env, |ask, grant| {
            (ask.name == grant.name).then(|| EnvCapability { name: grant.name.clone(), reason: None })
        }),
        secret: pairs(&ask.secret, &grant.secret, intersect_secret),
        clock: ask.clock && grant.clock,
        random: ask.random && grant.random,
        store: match (&ask.store, &grant.store) {
            (Some(ask), Some(grant)) => {
                Some(StoreCapability { max_bytes: ask.max_bytes.min(grant.max_bytes) })
            }
            (None, _) | (_, None) => None,
        },
    }
}

/// Everything that one ask and one grant have in common, each once.
fn pairs<T: PartialEq>(ask: &[T], grant: &[T], both: impl Fn(&T, &T) -> Option<T>) -> Vec<T> {
    let mut found = Vec::new();
    for asked in ask {
        for granted in grant {
            if let Some(common) = both(asked, granted)
                && !found.contains(&common)
            {
                found.push(common);
            }
        }
    }
    found
}

/// A workspace path in normal form: `.`, or plain names joined by `/`. `None` when it is absolute or steps up.
pub(crate) fn plain_path(path: &str) -> Option<String> {
    let mut names = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_str()?),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    if path.is_empty() || path.contains('\0') {
        return None;
    }
    Some(if names.is_empty() { ".".to_owned() } else { names.join("/") })
}

fn contains(folder: &str, path: &str) -> bool {
    folder == "." || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn intersect_fs(ask: &FsCapability, grant: &FsCapability) -> Option<FsCapability> {
    let (asked, granted) = (plain_path(&ask.path)?, plain_path(&grant.path)?);
    let path = if contains(&granted, &asked) {
        asked
    } else if contains(&asked, &granted) {
        granted
    } else {
        return None;
    };
    Some(FsCapability { path, mode: ask.mode.min(grant.mode), reason: None })
}

fn intersect_http(ask: &HttpCapability, grant: &HttpCapability) -> Option<HttpCapability> {
    let url = UrlPattern::parse(&ask.url).ok()?.intersect(&UrlPattern::parse(&grant.url).ok()?)?;
    let granted = methods_of(grant).ok()?;
    let methods: Vec<String> = methods_of(ask)
        .ok()?
        .into_iter()
        .filter(|method| granted.contains(method))
        .map(|method| method.as_str().to_owned())
        .collect();
    if methods.is_empty() {
        return None;
    }
    // Only a grant can allow private addresses; an ask has no say in it.
    Some(HttpCapability { url: url.to_string(), methods, private: grant.private, reason: None })
}

fn intersect_secret(ask: &SecretCapability, grant: &SecretCapability) -> Option<SecretCapability> {
    if ask.name != grant.name {
        return None;
    }
    let patterns = |hosts: &[String]| -> Vec<HostPattern> {
        hosts.iter().filter_map(|host| HostPattern::parse(host).ok()).collect()
    };
    let hosts: Vec<String> = pairs(&patterns(&ask.hosts), &patterns(&grant.hosts), HostPattern::intersect)
        .iter()
        .map(ToString::to_string)
        .collect();
    (!hosts.is_empty()).then(|| SecretCapability { name: grant.name.clone(), hosts, reason: None })
}

#[cfg(test)]
#[path = "intersect_tests.rs"]
mod tests;
