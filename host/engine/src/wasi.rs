//! WASI 0.2 that grants nothing, for components that the JavaScript, Python and Go toolchains build.
//!
//! Environment, arguments and preopened folders are empty, there is no terminal, the clocks are stopped ([`StoppedClock`]), a sleep returns immediately, random bytes are derived from the failure's random number, and output to stdout and stderr goes to the policy's log. Everything else traps when it is called. Nothing waits, because fuel and epochs can't interrupt a wait inside a host function.

use sha2::{Digest, Sha256};
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{
    ComponentType, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType,
};
use wasmtime::{StoreContextMut, bail};

use crate::host::{Host, StoppedClock};

/// The packages of WASI 0.2 that a policy may import from; functions that are not defined below trap.
pub(super) const PACKAGES: [&str; 6] = [
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:filesystem/",
    "wasi:io/",
    "wasi:random/",
    "wasi:sockets/",
];

/// The maximum size of one write.
const WRITABLE: u64 = 4096;

/// Host resources that have no state of their own.
struct InputStream;
struct OutputStream;
struct IoError;
struct Pollable;
struct TerminalInput;
struct TerminalOutput;
struct Descriptor;

#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

type Written = Result<(), StreamError>;

/// Defines `interface` (`wasi:cli/stderr@0.2.6`) under exactly the name that the component imports, with the resources of `imported`, its type.
pub(super) fn define(
    linker: &mut Linker<Host>,
    interface: &str,
    imported: &ComponentItem,
) -> wasmtime::Result<()> {
    let unversioned = interface.split('@').next().unwrap_or(interface);
    let engine = linker.engine().clone();
    let instance = &mut linker.instance(interface)?;
    if let ComponentItem::ComponentInstance(imported) = imported {
        for (name, export) in imported.exports(&engine) {
            if let ComponentItem::Resource(_) = export.ty {
                instance.resource(name, resource_type(name), |_, _| Ok(()))?;
            }
        }
    }
    match unversioned {
        "wasi:cli/environment" => environment(instance),
        "wasi:cli/stdin" => given(instance, "get-stdin", own::<InputStream, 0>),
        "wasi:cli/stdout" => given(instance, "get-stdout", own::<OutputStream, 1>),
        "wasi:cli/stderr" => given(instance, "get-stderr", own::<OutputStream, 2>),
        "wasi:cli/terminal-stdin" => given(instance, "get-terminal-stdin", none::<TerminalInput>),
        "wasi:cli/terminal-stdout" => {
            given(instance, "get-terminal-stdout", none::<TerminalOutput>)
        }
        "wasi:cli/terminal-stderr" => {
            given(instance, "get-terminal-stderr", none::<TerminalOutput>)
        }
        "wasi:clocks/monotonic-clock" => {
            clock(instance, |clock| clock.monotonic)?;
            given(instance, "resolution", || 1_u64)?;
            // Go's runtime sleeps a little before it prints a panic.
            for subscribe in ["subscribe-duration", "subscribe-instant"] {
                instance.func_wrap(subscribe, |_, (_,): (u64,)| Ok((own::<Pollable, 0>(),)))?;
            }
            Ok(())
        }
        "wasi:clocks/wall-clock" => {
            clock(instance, |clock| Datetime {
                seconds: clock.seconds,
                nanoseconds: 0,
            })?;
            given(instance, "resolution", || Datetime {
                seconds: 1,
                nanoseconds: 0,
            })
        }
        "wasi:filesystem/preopens" => given(
            instance,
            "get-directories",
            Vec::<(Resource<Descriptor>, String)>::new,
        ),
        "wasi:io/poll" => poll(instance),
        "wasi:io/streams" => streams(instance),
        "wasi:random/random" | "wasi:random/insecure" => {
            let prefix = if unversioned.ends_with("insecure") {
                "get-insecure-random"
            } else {
                "get-random"
            };
            instance.func_wrap(
                &format!("{prefix}-bytes"),
                |mut store, (length,): (u64,)| Ok((random_bytes(&mut store, length)?,)),
            )?;
            instance.func_wrap(&format!("{prefix}-u64"), |mut store, (): ()| {
                Ok((random_u64(&mut store)?,))
            })
        }
        "wasi:random/insecure-seed" => instance.func_wrap("insecure-seed", |mut store, (): ()| {
            Ok(((random_u64(&mut store)?, random_u64(&mut store)?),))
        }),
        _ => Ok(()),
    }
}

fn environment(instance: &mut LinkerInstance<'_, Host>) -> wasmtime::Result<()> {
    given(instance, "get-environment", Vec::<(String, String)>::new)?;
    given(instance, "get-arguments", Vec::<String>::new)?;
    given(instance, "initial-cwd", || None::<String>)
}

/// Every wait returns immediately, because only clocks can be waited for.
fn poll(instance: &mut LinkerInstance<'_, Host>) -> wasmtime::Result<()> {
    instance.func_wrap(
        "[method]pollable.ready",
        |_, (_,): (Resource<Pollable>,)| Ok((true,)),
    )?;
    instance.func_wrap(
        "[method]pollable.block",
        |_, (_,): (Resource<Pollable>,)| Ok(()),
    )?;
    instance.func_wrap("poll", |_, (waiting,): (Vec<Resource<Pollable>>,)| {
        let all = 0..u32::try_from(waiting.len())?;
        Ok((all.collect::<Vec<u32>>(),))
    })
}

fn streams(instance: &mut LinkerInstance<'_, Host>) -> wasmtime::Result<()> {
    for read in [
        "[method]input-stream.read",
        "[method]input-stream.blocking-read",
    ] {
        instance.func_wrap(read, |_, (_, _): (Resource<InputStream>, u64)| {
            Ok((Err::<Vec<u8>, _>(StreamError::Closed),))
        })?;
    }
    instance.func_wrap(
        "[method]output-stream.check-write",
        |_, (_,): (Resource<OutputStream>,)| Ok((Ok::<u64, StreamError>(WRITABLE),)),
    )?;
    for write in [
        "[method]output-stream.write",
        "[method]output-stream.blocking-write-and-flush",
    ] {
        instance.func_wrap(
            write,
            |mut store: StoreContextMut<'_, Host>,
             (_, bytes): (Resource<OutputStream>, Vec<u8>)| {
                store.data_mut().print(&bytes)?;
                Ok((Written::Ok(()),))
            },
        )?;
    }
    for flush in [
        "[method]output-stream.flush",
        "[method]output-stream.blocking-flush",
    ] {
        instance.func_wrap(flush, |_, (_,): (Resource<OutputStream>,)| {
            Ok((Written::Ok(()),))
        })?;
    }
    Ok(())
}

/// The resource with this handle.
fn own<T: 'static, const HANDLE: u32>() -> Resource<T> {
    Resource::new_own(HANDLE)
}

fn none<T: 'static>() -> Option<Resource<T>> {
    None
}

/// Defines a function without arguments that always returns the same value.
fn given<T>(
    instance: &mut LinkerInstance<'_, Host>,
    name: &str,
    answer: impl Fn() -> T + Send + Sync + 'static,
) -> wasmtime::Result<()>
where
    T: Lower + ComponentType + Send + Sync + 'static,
    (T,): wasmtime::component::ComponentNamedList + Lower,
{
    instance.func_wrap(name, move |_, (): ()| Ok((answer(),)))
}

/// The time of a stopped clock. The read is recorded, so that authors can be warned if an answer depends on it.
fn clock<T>(
    instance: &mut LinkerInstance<'_, Host>,
    time: impl Fn(StoppedClock) -> T + Send + Sync + 'static,
) -> wasmtime::Result<()>
where
    T: Lower + ComponentType + Send + Sync + 'static,
    (T,): wasmtime::component::ComponentNamedList + Lower,
{
    instance.func_wrap(
        "now",
        move |mut store: StoreContextMut<'_, Host>, (): ()| {
            let clock = store.data_mut().read_clock();
            Ok((time(clock),))
        },
    )
}

/// The type of a resource. A name means the same resource in every interface that uses it.
fn resource_type(name: &str) -> ResourceType {
    match name {
        "descriptor" => ResourceType::host::<Descriptor>(),
        "error" => ResourceType::host::<IoError>(),
        "input-stream" => ResourceType::host::<InputStream>(),
        "output-stream" => ResourceType::host::<OutputStream>(),
        "pollable" => ResourceType::host::<Pollable>(),
        "terminal-input" => ResourceType::host::<TerminalInput>(),
        "terminal-output" => ResourceType::host::<TerminalOutput>(),
        // No such resource is ever created, because every constructor traps. A hash of the name identifies the type.
        other => ResourceType::host_dynamic(other.bytes().fold(0, |number: u32, byte| {
            number.wrapping_mul(31).wrapping_add(byte.into())
        })),
    }
}

/// The next `length` bytes of a stream that is derived from the failure's random number with SHA-256, so it is the same in every evaluation of the failure.
fn random_bytes(store: &mut StoreContextMut<'_, Host>, length: u64) -> wasmtime::Result<Vec<u8>> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > store.data().limits().strings {
        bail!("requested {length} random bytes at once");
    }
    let mut bytes = Vec::with_capacity(length + 32);
    while bytes.len() < length {
        let (random, block) = store.data_mut().next_random_block()?;
        let digest = Sha256::new()
            .chain_update(random.to_be_bytes())
            .chain_update(block.to_be_bytes())
            .finalize();
        bytes.extend_from_slice(&digest);
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn random_u64(store: &mut StoreContextMut<'_, Host>) -> wasmtime::Result<u64> {
    let bytes = random_bytes(store, 8)?;
    Ok(bytes
        .iter()
        .fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}
