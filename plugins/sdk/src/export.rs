//! The macro that makes a plugin of tools.

/// Makes a plugin of one or more [`Tool`](crate::Tool)s. Once per crate, at its root.
///
/// Besides the component's exports it leaves a module `plugin` with `describe()` and `call(name, arguments, context)`,
/// which work on every target: tests call a tool through them exactly as a host would.
#[macro_export]
macro_rules! export {
    ($($tool:ty),+ $(,)?) => {
        /// What this plugin offers, as a host sees it.
        #[allow(dead_code, unreachable_pub, reason = "for tests; the exports use it on wasm only")]
        pub mod plugin {
            use super::*;

            /// The specifications of all tools.
            pub fn describe() -> ::std::vec::Vec<$crate::bindings::hames::tool::types::ToolSpec> {
                ::std::vec![$($crate::serve::spec::<$tool>()),+]
            }

            /// Serves one call of the tool `name`.
            pub fn call(
                name: &str,
                arguments: &str,
                context: &$crate::Context,
            ) -> ::std::result::Result<$crate::Output, $crate::Failure> {
                $(
                    if name == <$tool as $crate::Tool>::NAME {
                        return $crate::serve::run::<$tool>(arguments, context);
                    }
                )+
                ::std::result::Result::Err($crate::serve::no_such_tool(name, &[$(<$tool as $crate::Tool>::NAME),+]))
            }
        }

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::hames::tool::types as wit;

            struct Component;

            impl $crate::bindings::exports::hames::tool::tool::Guest for Component {
                fn describe() -> ::std::vec::Vec<wit::ToolSpec> {
                    plugin::describe()
                }

                fn call(
                    invocation: wit::Invocation,
                ) -> ::std::result::Result<wit::ToolOutput, wit::ToolError> {
                    let context = $crate::serve::context_of_host(invocation.call_id);
                    plugin::call(&invocation.tool, &invocation.arguments, &context)
                        .map(::std::convert::Into::into)
                        .map_err(::std::convert::Into::into)
                }
            }

            $crate::bindings::export_component!(Component with_types_in $crate::bindings);
        };
    };
}
