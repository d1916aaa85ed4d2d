//! What plugins do.

use std::fmt;

use crate::driver::Snapshot;
use metrics_listener::Page;

impl Snapshot {
    pub(super) fn plugins(&self, page: &mut Page<'_>) -> fmt::Result {
        let plugins = &self.plugins.plugins;
        let hooks = || {
            plugins.iter().flat_map(|plugin| {
                let hooks = plugin.hooks.iter();
                hooks.map(|(hook, calls, errors)| {
                    let labels = vec![("plugin", &*plugin.plugin), ("hook", *hook)];
                    (labels, *calls, *errors)
                })
            })
        };
        page.counters(
            "tandem_plugin_calls",
            "Calls of the hooks of plugins",
            hooks().map(|(labels, calls, _)| (labels, calls)),
        )?;
        page.counters(
            "tandem_plugin_errors",
            "Calls of the hooks of plugins that failed",
            hooks().map(|(labels, _, errors)| (labels, errors)),
        )?;
        page.counters(
            "tandem_plugin_count",
            "What plugins count themselves",
            plugins.iter().flat_map(|plugin| {
                let counts = plugin.counts.iter();
                counts.map(|(name, count)| {
                    (vec![("plugin", &*plugin.plugin), ("name", &**name)], *count)
                })
            }),
        )?;
        page.gauge(
            "tandem_plugin_shared_entries",
            "Entries of the dictionary that plugins share",
            self.plugins.entries as f64,
        )?;
        page.gauge(
            "tandem_plugin_shared_bytes",
            "Octets of the dictionary that plugins share",
            self.plugins.octets as f64,
        )
    }
}
