//! A small key-value store private to the plugin, which lasts from call to call. Needs the grant `store`.
//! On native targets it is a map that lives as long as the thread.

use crate::Failure;

#[cfg(target_arch = "wasm32")]
mod backend {
    use crate::Failure;
    use crate::bindings::hames::host::store as host;

    fn failure(key: &str, error: host::Error) -> Failure {
        match error {
            host::Error::Denied => Failure::Denied("a store is not granted to this plugin".to_owned()),
            host::Error::Full => Failure::Other(format!("no room for `{key}` in the store")),
            host::Error::Other(message) => Failure::Other(format!("store, key `{key}`: {message}")),
        }
    }

    pub(super) fn get(key: &str) -> Result<Option<Vec<u8>>, Failure> {
        host::get(key).map_err(|error| failure(key, error))
    }

    pub(super) fn set(key: &str, value: &[u8]) -> Result<(), Failure> {
        host::set(key, value).map_err(|error| failure(key, error))
    }

    pub(super) fn delete(key: &str) -> Result<(), Failure> {
        host::delete(key).map_err(|error| failure(key, error))
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod backend {
    use crate::Failure;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    thread_local! {
        static ENTRIES: RefCell<BTreeMap<String, Vec<u8>>> = const { RefCell::new(BTreeMap::new()) };
    }

    pub(super) fn get(key: &str) -> Result<Option<Vec<u8>>, Failure> {
        Ok(ENTRIES.with_borrow(|entries| entries.get(key).cloned()))
    }

    pub(super) fn set(key: &str, value: &[u8]) -> Result<(), Failure> {
        ENTRIES.with_borrow_mut(|entries| entries.insert(key.to_owned(), value.to_vec()));
        Ok(())
    }

    pub(super) fn delete(key: &str) -> Result<(), Failure> {
        ENTRIES.with_borrow_mut(|entries| entries.remove(key));
        Ok(())
    }
}

/// The value of `key`, or `None` when there is none.
pub fn get(key: &str) -> Result<Option<Vec<u8>>, Failure> {
    backend::get(key)
}

/// Sets or overwrites the value of `key`.
pub fn set(key: &str, value: &[u8]) -> Result<(), Failure> {
    backend::set(key, value)
}

/// Removes `key`; no error when it does not exist.
pub fn delete(key: &str) -> Result<(), Failure> {
    backend::delete(key)
}
