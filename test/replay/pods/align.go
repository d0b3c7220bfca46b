package pods

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/test/replay"
)

// snapshot is a state of a Pod or another object as it was seen, flattened to paths and values.
type snapshot struct {
	t              float64
	last           float64 // how long it was seen; the last one for ever
	parts          map[string]string
	loose          bool    // the Pod's resources were read from an unlimited cgroup: not compared
	transientScore float64 // how short it may be and still be merged with its neighbours
}

// transientDuration is how short a state may be seen and still be merged with its neighbours by a
// slower watcher, in seconds: one round of upstream's own look at the runtime, a second, and the
// tenth to which each of two times is rounded.
const transientDuration = 1.15

// timeRounding is how long upstream's kubelet may take to come by again, in seconds: ten to
// fifteen, and its look at the runtime.
const timeRounding = 15 + transientDuration

// eventWindow is the same for the status of an object that follows Pods, as a Job's controller
// gathers changes for another second, and for a printed row, which stands for several brief states.
const eventWindow = transientDuration + 1

// ownFields is the same for a state of ours: the machine may be busy with ten cases and more.
const ownFields = 2.0

// transientPaths are parts of a container's state that a slower watcher sees one step later: it
// runs, it ended.
var transientPaths = regexp.MustCompile(
	`ontainerStatuses\[[^]]*\]\.(state\..*|started|ready|containerID|imageID|image|allocatedResources.*|resources.*|` +
		`user.*|volumeMounts.*)$`)

// unlimited is what upstream's kubelet reports as a Pod's memory limit on cgroup v1 where none is
// set: an accident of reading a file, in place of what the Pod asks for.
const unlimited = "9007199254740988Ki"

// flatten turns decoded JSON into paths and values. Elements of lists go by their type or name, so
// that conditions and containers meet.
func flatten(path string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flatten(path+"."+k, x, into)
		}
		if len(v) == 0 && path != ".status.resources" {
			into[path] = "{}"
		}
	case []any:
		for i, x := range v {
			key := fmt.Sprint(i)
			for _, by := range []string{"type", "name"} {
				if id, ok := dig(x, by).(string); ok && id != "" {
					key = id
					break
				}
			}
			flatten(path+"["+key+"]", x, into)
		}
		if len(v) == 0 {
			into[path] = "[]"
		}
	case string:
		into[path] = v
	case nil:
	default:
		raw, _ := json.Marshal(v) // it was decoded from JSON
		into[path] = string(raw)
	}
}

// snapshots makes the sequence of distinct states from lines of one object.
func snapshots(lines []map[string]any, without ...string) []snapshot {
	var out []snapshot
	for _, line := range lines {
		m := snapshot{parts: map[string]string{}, transientScore: transientDuration}
		m.t, _ = line["t"].(float64)
		line = maps.Clone(line)
		for _, k := range append(without, "t", "change") {
			delete(line, k)
		}
		m.loose = dig(line, "status", "resources", "limits", "memory") == unlimited
		flatten("", line, m.parts)
		if slices.Contains(without, "object") || slices.Contains(without, "NAME") {
			m.transientScore = eventWindow
		}
		if m.loose {
			maps.DeleteFunc(m.parts, func(path, _ string) bool { return strings.HasPrefix(path, ".status.resources") })
		}
		if len(out) > 0 && maps.Equal(out[len(out)-1].parts, m.parts) {
			continue
		}
		out = append(out, m)
	}
	for i := range out {
		out[i].last = math.Inf(1)
		if i+1 < len(out) {
			out[i].last = out[i+1].t - out[i].t
		}
	}
	return out
}

// unequal lists the paths at which two states differ.
func unequal(want, got snapshot) []string {
	var out []string
	for path, w := range want.parts {
		if g, ok := got.parts[path]; !ok || !replay.Match(w, g) {
			out = append(out, path)
		}
	}
	for path := range got.parts {
		if _, ok := want.parts[path]; !ok && !(want.loose && strings.HasPrefix(path, ".status.resources")) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// transientSnapshots says for each state where upstream is back at the state before it, when all
// between was brief: a slower watcher, or a calmer node, shows one state there. 0 means nowhere.
func transientSnapshots(list []snapshot) []int {
	out := make([]int, len(list))
	for i := 1; i < len(list); i++ {
		for k := i; k+1 < len(list) && list[k].last <= list[k].transientScore; k++ {
			if maps.Equal(list[i-1].parts, list[k+1].parts) {
				out[i] = k + 2
				break
			}
		}
	}
	return out
}

// alignment is how two sequences of states meet: pairs, and what is left over on either side.
// Indexes are -1 where there is no partner.
type alignment struct {
	cost  float64
	pairs [][2]int
}

const (
	skipTransientCost = 0.4 // a state that a slower watcher would not have seen
	skipCost          = 6.0 // one that it would have
	mismatchCost      = 9   // states that differ in more places are not the same state
)

// align pairs states in order at the least cost. A brief state may be left out; a brief one of ours
// only when all its parts are upstream's, but for how far single containers are: those start and
// end side by side.
func align(want, got []snapshot) alignment {
	known := func(g snapshot) bool {
		for path, v := range g.parts {
			if g.last <= transientDuration && transientPaths.MatchString(path) {
				continue
			}
			if strings.HasSuffix(path, ".message") || strings.HasPrefix(path, ".status.resources") ||
				strings.HasPrefix(path, ".READY") || strings.HasPrefix(path, ".STATUS") {
				continue // follows from the rest
			}
			if !slices.ContainsFunc(want,
				func(w snapshot) bool { x, ok := w.parts[path]; return ok && replay.Match(x, v) }) {
				return false
			}
		}
		return true
	}
	skipW, skipG := make([]float64, len(want)), make([]float64, len(got))
	for i, w := range want {
		skipW[i] = skipCost
		if w.last <= w.transientScore {
			skipW[i] = skipTransientCost
		}
	}
	for j, g := range got {
		skipG[j] = skipCost
		if g.last <= ownFields && known(g) {
			skipG[j] = skipTransientCost
		}
	}
	back := transientSnapshots(want)
	best := make([][]float64, len(want)+1)
	from := make([][]byte, len(want)+1)
	for i := range best {
		best[i], from[i] = make([]float64, len(got)+1), make([]byte, len(got)+1)
	}
	for i := len(want); i >= 0; i-- {
		for j := len(got); j >= 0; j-- {
			if i == len(want) && j == len(got) {
				continue
			}
			best[i][j] = math.Inf(1)
			try := func(c float64, how byte) {
				if c < best[i][j] {
					best[i][j], from[i][j] = c, how
				}
			}
			if i < len(want) && j < len(got) {
				if n := len(unequal(want[i], got[j])); n <= mismatchCost {
					try(float64(n)+best[i+1][j+1], 'p')
				}
			}
			if i < len(want) {
				try(skipW[i]+best[i+1][j], 'w')
				if back[i] > 0 {
					try(skipTransientCost+best[back[i]][j], 'f')
				}
			}
			if j < len(got) {
				try(skipG[j]+best[i][j+1], 'g')
			}
		}
	}
	out := alignment{cost: best[0][0]}
	for i, j := 0, 0; i < len(want) || j < len(got); {
		switch from[i][j] {
		case 'p':
			out.pairs = append(out.pairs, [2]int{i, j})
			i, j = i+1, j+1
		case 'f':
			i = back[i]
		case 'w':
			if skipW[i] > skipTransientCost {
				out.pairs = append(out.pairs, [2]int{i, -1})
			}
			i++
		default:
			if skipG[j] > skipTransientCost {
				out.pairs = append(out.pairs, [2]int{-1, j})
			}
			j++
		}
	}
	return out
}

// differences returns how two sequences of states differ; one that repeats over states is listed
// once. Times count as a magnitude, as the recordings' README asks: a state may come up to ten
// times sooner, or sooner by a round of upstream's kubelet, and later by little more than half of
// the time.
func differences(prefix string, want, got []snapshot) []replay.Difference {
	var out []replay.Difference
	seen := map[string]int{}
	add := func(d replay.Difference) {
		key := d.Path + "\x00" + d.Want + "\x00" + d.Got
		if seen[key]++; seen[key] == 1 {
			out = append(out, d)
		}
	}
	for _, p := range align(want, got).pairs {
		switch {
		case p[1] < 0:
			add(replay.Difference{Path: prefix + " state", Want: want[p[0]].summary(), Got: "nothing"})
		case p[0] < 0:
			add(replay.Difference{Path: prefix + " state", Want: "nothing", Got: got[p[1]].summary()})
		default:
			w, g := want[p[0]], got[p[1]]
			for _, path := range unequal(w, g) {
				add(replay.Difference{Path: prefix + path, Want: value(w, path), Got: value(g, path)})
			}
			if g.t-w.t > max(5, 0.6*w.t) || w.t-g.t > max(timeRounding, 0.9*w.t) {
				add(replay.Difference{Path: prefix + " time", Want: fmt.Sprintf("%.1f s", w.t),
					Got: fmt.Sprintf("%.1f s (%s)", g.t, g.summary())})
			}
		}
	}
	return out
}

func value(m snapshot, path string) string {
	v, ok := m.parts[path]
	if !ok {
		return "nothing"
	}
	if len(v) > 400 {
		v = v[:400] + "…"
	}
	return v
}

var tellingPaths = regexp.MustCompile(
	`^\.deletionTimestamp$|^\.status\.(phase|reason)$|^\.status\.conditions\[(Ready|DisruptionTarget|Complete|Failed|` +
		`FailureTarget)\]\.(status|reason)$|\.state\.\w+(\.(reason|exitCode))?$|\.restartCount$|Replicas$|` +
		`^\.status\.(active|ready|succeeded|failed|terminating|currentHealthy|disruptionsAllowed)$|^\.endpoints.*$`)

// summary names a state in one line.
func (m snapshot) summary() string {
	out := []string{fmt.Sprintf("t=%.1f", m.t)}
	for _, path := range slices.Sorted(maps.Keys(m.parts)) {
		if tellingPaths.MatchString(path) {
			out = append(out, strings.NewReplacer(".status.", "", "containerStatuses", "c", "conditions",
				"").Replace(path)+"="+m.parts[path])
		}
	}
	return strings.Join(out, " ")
}
