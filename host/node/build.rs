//! How an addon of Node.js is linked on this platform.

fn main() {
    napi_build::setup();
}
