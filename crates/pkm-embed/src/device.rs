//! Where a model runs.

use candle_core::Device;

use crate::error::Error;

/// The device that someone wants a model on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The best one that this build can drive and this machine has.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The CUDA device with this number.
    Cuda(usize),
    /// The Metal device with this number.
    Metal(usize),
}

impl DeviceChoice {
    /// Starts the device.
    pub(crate) fn open(self) -> Result<Device, Error> {
        match self {
            DeviceChoice::Auto => Ok(best()),
            DeviceChoice::Cpu => Ok(Device::Cpu),
            DeviceChoice::Cuda(ordinal) if cfg!(feature = "cuda") => {
                started(format!("cuda:{ordinal}"), Device::new_cuda(ordinal))
            }
            DeviceChoice::Metal(ordinal) if cfg!(feature = "metal") => {
                started(format!("metal:{ordinal}"), Device::new_metal(ordinal))
            }
            DeviceChoice::Cuda(ordinal) => Err(Error::DeviceNotBuilt {
                device: format!("cuda:{ordinal}"),
                feature: "cuda",
            }),
            DeviceChoice::Metal(ordinal) => Err(Error::DeviceNotBuilt {
                device: format!("metal:{ordinal}"),
                feature: "metal",
            }),
        }
    }
}

/// Name of a device as [`crate::ModelCard::device`] gives it.
pub(crate) fn name(device: &Device) -> String {
    match device.location() {
        candle_core::DeviceLocation::Cpu => "cpu".to_owned(),
        candle_core::DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
        candle_core::DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
    }
}

/// A device that does not start is no error here: a build for CUDA must run on a laptop without.
fn best() -> Device {
    for (built, open) in [
        (cfg!(feature = "cuda"), Device::new_cuda as fn(usize) -> _),
        (cfg!(feature = "metal"), Device::new_metal),
    ] {
        if built {
            match open(0) {
                Ok(device) => return device,
                Err(error) => tracing::warn!(%error, "no usable GPU, running on the CPU"),
            }
        }
    }
    Device::Cpu
}

fn started(device: String, opened: candle_core::Result<Device>) -> Result<Device, Error> {
    opened.map_err(|error| Error::Device {
        device,
        source: error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_device_that_the_build_cannot_drive_is_refused_with_the_build_that_can() {
        let error = DeviceChoice::Cuda(0).open().unwrap_err().to_string();
        assert!(
            error.contains("`cuda:0`") && error.contains("--features cuda"),
            "{error}"
        );
        let error = DeviceChoice::Metal(1).open().unwrap_err().to_string();
        assert!(
            error.contains("`metal:1`") && error.contains("--features metal"),
            "{error}"
        );
    }

    #[cfg(not(any(feature = "cuda", feature = "metal")))]
    #[test]
    fn automatic_choice_in_a_plain_build_is_the_cpu() {
        assert_eq!(name(&DeviceChoice::Auto.open().unwrap()), "cpu");
    }
}
