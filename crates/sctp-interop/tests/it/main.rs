//! The extensions of SCTP between our engine and those of others: each module is an extension.

/// Tests of an extension with one of the peers: generic functions of the module, as tests.
macro_rules! tests_with {
    ($module:ident, $peer:ident: $($test:ident),* $(,)?) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::$test::<crate::peers::$peer>();
                }
            )*
        }
    };
}

mod address_changes;
mod authentication;
mod engine;
mod everything;
mod interleaving;
mod link;
mod multipath;
mod nr_sack;
mod ours;
mod page;
mod partial_reliability;
mod peers;
mod re_configuration;
mod zero_checksum;
