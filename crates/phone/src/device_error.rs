//! Why a device cannot be used.

/// Why a device cannot be used; the text names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{device}: {problem}")]
pub struct DeviceError {
    device: String,
    problem: String,
}

impl DeviceError {
    pub(crate) fn new(device: impl Into<String>, problem: impl ToString) -> DeviceError {
        DeviceError {
            device: device.into(),
            problem: problem.to_string(),
        }
    }
}
