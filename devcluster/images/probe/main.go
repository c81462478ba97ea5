// Command probe is the only program in a devcluster's images, under two names.
//
// Called pause (or with pause as its first argument) it holds a pod's namespaces: it waits for a signal to
// stop and reaps the processes that are handed to it.
//
// Otherwise it tells which GPUs its container was given, as one line of JSON on stdout, and stays:
//
//	probe                   until SIGTERM or SIGINT, then it exits with 0
//	probe SECONDS [STATUS]  or until the seconds are over; it exits with the status (default 0), as work that is
//	                        not finished does when it must stop
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type device struct {
	Path  string `json:"path"`
	Major uint64 `json:"major"`
	Minor uint64 `json:"minor"`
}

type report struct {
	Env     map[string]string `json:"env"`
	Devices []device          `json:"devices"`
}

func main() {
	name, arguments := filepath.Base(os.Args[0]), os.Args[1:]
	if name == "pause" || len(arguments) > 0 && arguments[0] == "pause" {
		pause()
		return
	}
	os.Exit(probe(arguments))
}

func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		// One signal may stand for several dead children.
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func probe(arguments []string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	var over <-chan time.Time // nil: never
	status := 0
	if len(arguments) > 2 {
		return usage()
	}
	if len(arguments) > 0 {
		seconds, err := strconv.ParseFloat(arguments[0], 64)
		if err != nil || seconds < 0 {
			return usage()
		}
		over = time.After(time.Duration(seconds * float64(time.Second)))
	}
	if len(arguments) > 1 {
		var err error
		if status, err = strconv.Atoi(arguments[1]); err != nil || status < 0 || status > 255 {
			return usage()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(report{environment(), devices()}); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		return 1
	}
	select {
	case <-stop:
	case <-over:
	}
	return status
}

func usage() int {
	fmt.Fprintln(os.Stderr, "usage: probe [SECONDS [STATUS]], or pause")
	return 2
}

// environment is every variable that speaks about GPUs.
func environment() map[string]string {
	found := map[string]string{}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "NVIDIA_") || strings.HasPrefix(name, "GPU_BOOKING_") {
			found[name] = value
		}
	}
	return found
}

// devices is every character device /dev/nvidia* and /dev/nvidia-caps/*, sorted by path.
func devices() []device {
	paths, _ := filepath.Glob("/dev/nvidia*") // the patterns are well-formed, and there is no other error
	access, _ := filepath.Glob("/dev/nvidia-caps/*")
	paths = append(paths, access...)
	sort.Strings(paths)
	found := []device{}
	for _, path := range paths {
		var stat syscall.Stat_t
		if err := syscall.Lstat(path, &stat); err != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFCHR {
			continue
		}
		number := uint64(stat.Rdev)
		found = append(found, device{path, major(number), minor(number)})
	}
	return found
}

// major and minor undo the kernel's packing of a device number (include/linux/kdev_t.h, huge_encode_dev).
func major(number uint64) uint64 { return (number>>8)&0xfff | (number>>32)&^uint64(0xfff) }

func minor(number uint64) uint64 { return number&0xff | (number>>12)&^uint64(0xff) }
