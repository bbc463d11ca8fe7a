// A policy in Go, its functions exported by hand: waits two seconds for each attempt, and panics for an error's code of its own.
package main

import (
	"fmt"
	"os"
	"unsafe"
)

// What the host's strings are put into, kept from the garbage collector.
var kept [][]byte

//go:wasmexport cabi_realloc
func realloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	room := make([]byte, size+align)
	kept = append(kept, room)
	at := (uintptr(unsafe.Pointer(&room[0])) + uintptr(align) - 1) &^ (uintptr(align) - 1)
	return unsafe.Pointer(at)
}

//go:wasmexport backstop:policy/backoff@0.1.0#delay
func delay(failure unsafe.Pointer) uint32 {
	attempt := *(*uint32)(unsafe.Add(failure, 16))
	fmt.Fprintln(os.Stderr, "attempt", attempt)
	if attempt == 9 {
		panic("told to crash")
	}
	return attempt * 2000
}

func main() {}
