//! The computer's microphone and speaker, by the crate `cpal` (feature `sound`): ALSA, and through its plugins PipeWire and
//! PulseAudio. A program that is built without the feature says so when a device is named.

use crate::device_error::DeviceError;

/// The names of a device: `default`, or ALSA's name of one, such as `alsa:hw:0`.
pub(crate) fn is_name(name: &str) -> bool {
    name == "default" || name.starts_with("alsa:")
}

#[cfg(feature = "sound")]
pub(crate) use with_sound::{Microphone, SpeakerStream};
#[cfg(not(feature = "sound"))]
pub(crate) use without_sound::{Microphone, SpeakerStream};

#[cfg(not(feature = "sound"))]
mod without_sound {
    use super::DeviceError;

    /// There is none.
    #[derive(Debug)]
    pub(crate) enum Microphone {}

    /// There is none.
    #[derive(Debug)]
    pub(crate) enum SpeakerStream {}

    const NO_SOUND: &str = "this program was built without sound devices (feature \"sound\")";

    impl Microphone {
        pub(crate) fn open(name: &str) -> Result<Microphone, DeviceError> {
            Err(DeviceError::new(name, NO_SOUND))
        }

        pub(crate) fn sample_rate(&self) -> u32 {
            match *self {}
        }

        pub(crate) fn take(&self, _count: usize) -> Vec<i16> {
            match *self {}
        }
    }

    impl SpeakerStream {
        pub(crate) fn open(
            name: &str,
            _play: impl FnMut(usize, u32) -> Vec<i16> + Send + 'static,
        ) -> Result<SpeakerStream, DeviceError> {
            Err(DeviceError::new(name, NO_SOUND))
        }
    }
}

#[cfg(feature = "sound")]
mod with_sound {
    use std::collections::VecDeque;
    use std::fmt;
    use std::sync::{Arc, Mutex, PoisonError};

    use cpal::traits::{DeviceTrait, HostTrait, StreamTrait};
    use cpal::{BufferSize, Device, FromSample, Sample, SampleFormat, SizedSample, StreamConfig};

    use super::DeviceError;

    /// Sound that waits to be sent: more of it was recorded by a clock that is faster than ours, and gives way.
    const MAX_WAITING_MS: usize = 80;
    /// So much is asked of the device at a time: as much as a packet has.
    const PERIOD_MS: u32 = 20;

    /// Records from when it is opened until it is dropped.
    pub(crate) struct Microphone {
        _stream: cpal::Stream,
        recorded: Arc<Mutex<VecDeque<i16>>>,
        sample_rate: u32,
    }

    /// Plays from when it is opened until it is dropped.
    pub(crate) struct SpeakerStream {
        _stream: cpal::Stream,
    }

    impl fmt::Debug for Microphone {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "Microphone({})", self.sample_rate)
        }
    }

    impl fmt::Debug for SpeakerStream {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("SpeakerStream")
        }
    }

    impl Microphone {
        /// Opens it.
        ///
        /// # Errors
        ///
        /// It is not there, or has no format that we know.
        pub(crate) fn open(name: &str) -> Result<Microphone, DeviceError> {
            let problem = |error: cpal::Error| DeviceError::new(name, error);
            let device = find(name, |host| host.default_input_device())?;
            let supported = device.default_input_config().map_err(problem)?;
            let config = config(supported.config());
            let recorded = Arc::new(Mutex::new(VecDeque::new()));
            let into = Arc::clone(&recorded);
            let stream = match supported.sample_format() {
                SampleFormat::I16 => record::<i16>(&device, config, into),
                SampleFormat::I32 => record::<i32>(&device, config, into),
                SampleFormat::F32 => record::<f32>(&device, config, into),
                SampleFormat::U8 => record::<u8>(&device, config, into),
                other => return Err(DeviceError::new(name, format!("samples of {other}"))),
            }
            .map_err(problem)?;
            stream.play().map_err(problem)?;
            Ok(Microphone {
                _stream: stream,
                recorded,
                sample_rate: config.sample_rate,
            })
        }

        pub(crate) fn sample_rate(&self) -> u32 {
            self.sample_rate
        }

        /// The next samples, or fewer when they are not recorded yet.
        pub(crate) fn take(&self, count: usize) -> Vec<i16> {
            let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            let count = count.min(recorded.len());
            recorded.drain(..count).collect()
        }
    }

    impl SpeakerStream {
        /// Opens it; `play` is asked for so many samples of a rate, again and again.
        ///
        /// # Errors
        ///
        /// It is not there, or has no format that we know.
        pub(crate) fn open(
            name: &str,
            play: impl FnMut(usize, u32) -> Vec<i16> + Send + 'static,
        ) -> Result<SpeakerStream, DeviceError> {
            let problem = |error: cpal::Error| DeviceError::new(name, error);
            let device = find(name, |host| host.default_output_device())?;
            let supported = device.default_output_config().map_err(problem)?;
            let config = config(supported.config());
            let stream = match supported.sample_format() {
                SampleFormat::I16 => sound::<i16>(&device, config, play),
                SampleFormat::I32 => sound::<i32>(&device, config, play),
                SampleFormat::F32 => sound::<f32>(&device, config, play),
                SampleFormat::U8 => sound::<u8>(&device, config, play),
                other => return Err(DeviceError::new(name, format!("samples of {other}"))),
            }
            .map_err(problem)?;
            stream.play().map_err(problem)?;
            Ok(SpeakerStream { _stream: stream })
        }
    }

    fn find(
        name: &str,
        default: impl FnOnce(&cpal::Host) -> Option<Device>,
    ) -> Result<Device, DeviceError> {
        let host = cpal::default_host();
        let device = match name {
            "default" => default(&host),
            _ => {
                let id = name.parse::<cpal::DeviceId>();
                host.device_by_id(&id.map_err(|error| DeviceError::new(name, error))?)
            }
        };
        device.ok_or_else(|| DeviceError::new(name, "there is no such device"))
    }

    fn config(mut config: StreamConfig) -> StreamConfig {
        config.buffer_size = BufferSize::Fixed(config.sample_rate * PERIOD_MS / 1_000);
        config
    }

    /// Of several channels the first one counts.
    fn record<S: SizedSample + Send + 'static>(
        device: &Device,
        config: StreamConfig,
        into: Arc<Mutex<VecDeque<i16>>>,
    ) -> Result<cpal::Stream, cpal::Error>
    where
        i16: FromSample<S>,
    {
        let channels = usize::from(config.channels.max(1));
        let most = config.sample_rate as usize * MAX_WAITING_MS / 1_000;
        device.build_input_stream::<S, _, _>(
            config,
            move |samples, _| {
                let mut recorded = into.lock().unwrap_or_else(PoisonError::into_inner);
                let first = samples.iter().step_by(channels);
                recorded.extend(first.map(|sample| i16::from_sample(*sample)));
                let excess = recorded.len().saturating_sub(most);
                recorded.drain(..excess);
            },
            // A device that is gone leaves silence; the call goes on.
            |_| {},
            None,
        )
    }

    /// All channels play the same.
    fn sound<S: SizedSample + FromSample<i16> + Send + 'static>(
        device: &Device,
        config: StreamConfig,
        mut play: impl FnMut(usize, u32) -> Vec<i16> + Send + 'static,
    ) -> Result<cpal::Stream, cpal::Error> {
        let channels = usize::from(config.channels.max(1));
        device.build_output_stream::<S, _, _>(
            config,
            move |samples: &mut [S], _| {
                let mixed = play(samples.len() / channels, config.sample_rate);
                let mut mixed = mixed.into_iter();
                for frame in samples.chunks_mut(channels) {
                    frame.fill(S::from_sample(mixed.next().unwrap_or(0)));
                }
            },
            |_| {},
            None,
        )
    }
}
