package pleg

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// Bounds of termination messages.
// https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/#customizing-the-termination-message
const (
	maxMessage      = 4096 // bytes of a termination message file
	maxFallback     = 2048 // bytes of a log tail
	maxFallbackRows = 80
)

// terminationMessage is the termination message of an ended container: its file, or the tail of its
// log if the policy says so and it failed.
func terminationMessage(s *runtimeapi.ContainerStatus) string {
	at := s.Annotations[podplan.MessagePathAnnotation]
	if at == "" {
		return ""
	}
	for _, m := range s.Mounts {
		if m.ContainerPath != at {
			continue
		}
		if text, err := head(m.HostPath, maxMessage); err == nil && text != "" {
			return text
		}
	}
	policy := v1.TerminationMessagePolicy(s.Annotations[podplan.MessagePolicyAnnotation])
	if policy == v1.TerminationMessageFallbackToLogsOnError && s.ExitCode != 0 && s.Reason != "ContainerCannotRun" {
		return logTail(s.LogPath)
	}
	return ""
}

func head(path string, n int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, n))
	return string(raw), err
}

// logTail is the end of a log file in CRI's or in Docker's JSON format, without its time stamps.
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	const window = 64 << 10 // far more than the bound on text, to allow for the stamps
	from := max(0, end-window)
	raw := make([]byte, end-from)
	if _, err := f.ReadAt(raw, from); err != nil && err != io.EOF {
		return ""
	}
	if from > 0 {
		_, raw, _ = bytes.Cut(raw, []byte("\n"))
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(raw), "\n"), "\n")
	if len(lines) > maxFallbackRows {
		lines = lines[len(lines)-maxFallbackRows:]
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(logText(l))
	}
	text := b.String()
	if len(text) > maxFallback {
		text = text[len(text)-maxFallback:]
	}
	return text
}

// logText is the text of one log line: "<time> <stream> <P|F> text" or a JSON object.
func logText(line string) string {
	if strings.HasPrefix(line, "{") {
		var o struct{ Log string }
		if json.Unmarshal([]byte(line), &o) == nil {
			return o.Log
		}
	}
	parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
	if len(parts) < 4 {
		return ""
	}
	if parts[2] == "P" {
		return parts[3]
	}
	return parts[3] + "\n"
}
