//! How much memory this process has.

use anyhow::Context;

/// Its proportional set size, in bytes.
pub(crate) fn proportional_set_size() -> anyhow::Result<u64> {
    let file = "/proc/self/smaps_rollup";
    let text = std::fs::read_to_string(file).context(file)?;
    let kibibytes: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse().ok())
        .with_context(|| format!("{file} has no Pss"))?;
    Ok(kibibytes * 1024)
}
