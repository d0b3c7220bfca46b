package rotation

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	compressSuffix  = ".gz"
	tmpSuffix       = ".tmp" // being compressed; a leftover of a stop in the middle
	timestampFormat = "20060102-150405"
)

// rotationSteps is one rotation, in this order.
type rotationSteps struct {
	remove   []string
	compress []string
	rename   string // the new name of the log being written
}

// planRotation decides over the rotated files of one log (named after it) at a moment. Oldest go
// first, so that who reads a newer one is not disturbed.
func planRotation(log string, files []string, p Policy, now time.Time) rotationSteps {
	var s rotationSteps
	var used []string
	slices.Sort(files)
	for _, f := range files {
		if strings.HasSuffix(f, tmpSuffix) || !strings.HasSuffix(f, compressSuffix) && slices.Contains(files,
			f+compressSuffix) {
			s.remove = append(s.remove, f)
		} else {
			used = append(used, f)
		}
	}
	// Beside the rotated ones there will be the log being written and the one that is renamed now.
	surplus := max(0, len(used)-max(0, p.MaxFiles-2))
	s.remove = append(s.remove, used[:surplus]...)
	for _, f := range used[surplus:] {
		if !strings.HasSuffix(f, compressSuffix) {
			s.compress = append(s.compress, f)
		}
	}
	s.rename = log + "." + now.Format(timestampFormat)
	return s
}

// unreachable chooses, among the files of a container's directory, those of runs before the
// previous one: no kubectl logs shows them.
func unreachable(files []string, run int) []string {
	var out []string
	for _, f := range files {
		head, _, _ := strings.Cut(f, ".") // 3.log, 3.log.20260102-150405.gz
		if n, err := strconv.Atoi(head); err == nil && n < run-1 {
			out = append(out, f)
		}
	}
	return out
}

// linkName is the name of a container's link, as log collectors take it apart:
// pod_namespace_container-id.log.
func linkName(pod, namespace, container, id string) string {
	const most = 251 // bytes before ".log"
	name := pod + "_" + namespace + "_" + container + "-" + id
	if len(name) > most {
		name = name[:most]
	}
	return name + ".log"
}
