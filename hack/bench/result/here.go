package result

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Here returns a run of a part on this machine without figures. The measured program is a gantry,
// or the source in the working directory if program is empty. What cannot be read is "unknown".
func Here(part, program string) Run {
	c := commit()
	if program != "" {
		c = commitOf(program)
	}
	return Run{
		Part: part, Commit: c, Machine: machine(), Load: load(),
		Date: time.Now().UTC().Format(time.RFC3339), Command: strings.Join(commandLine(os.Args), " "),
	}
}

// commandLine returns the command as typed: `go run` builds programs under other paths.
func commandLine(args []string) []string {
	name := args[0][strings.LastIndex(args[0], "/")+1:]
	return append([]string{"hack/" + name}, args[1:]...)
}

// commitOf returns the commit of a gantry binary; `gantry version` prints "gantry COMMIT,
// Kubernetes VERSION".
func commitOf(program string) string {
	out, err := exec.Command(program, "version").Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) < 2 {
		return "unknown"
	}
	return strings.TrimSuffix(fields[1], ",")
}

// commit returns that of the working directory, with "+changes" if the source was changed.
func commit() string {
	hash, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(hash))
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", "*.go",
		"go.mod").Output()
	if err != nil || len(changed) > 0 {
		name += "+changes"
	}
	return name
}

// machine says cores, processor, memory and kernel of this machine. Of the kernel's release it says
// the version alone: what follows tells who built it.
func machine() string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		parts = append(parts, model)
	}
	if kib, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		parts = append(parts, fmt.Sprintf("%d GiB", (kib+1<<19)>>20))
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		parts = append(parts, "Linux "+kernelVersion(unix.ByteSliceToString(u.Release[:])))
	}
	return strings.Join(parts, ", ")
}

// kernelVersion returns the first two numbers of a release: "6.18" of "6.18.44-cloud-amd64".
func kernelVersion(release string) string {
	parts := strings.SplitN(release, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// field returns the value of the first line "name: value" of a file in /proc.
func field(file, name string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	minute, _, _ := strings.Cut(string(raw), " ")
	return minute
}
