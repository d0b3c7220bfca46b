package schedulers

import (
	"bufio"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

var (
	pair      = regexp.MustCompile(`(\w+)=(?:"([^"]*)"|(\S+))`)
	ofPod     = regexp.MustCompile(`pod="([^"]*)"`)
	theirPart = `"Plugin scored node for pod"`
	theirSum  = `"Calculated node's final score for pod"`
	ourLine   = `"Score result"`
)

// scores are the points that a scheduler's log has for a Pod's last cycle since the log was looked
// at before.
func (o *schedulerRun) scores(pod string) (scores, error) {
	f, err := os.Open(o.log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(o.read, io.SeekStart); err != nil {
		return nil, err
	}
	out := scores{}
	put := func(node, plugin, points string) {
		n, err := strconv.ParseInt(points, 10, 64)
		if err != nil || n == 0 && plugin != "" {
			return // who gives nothing may as well not be asked
		}
		if out[node] == nil {
			out[node] = map[string]int64{}
		}
		out[node][plugin] = n
	}
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		o.read += int64(len(line))
		if m := ofPod.FindStringSubmatch(line); m == nil || m[1] != pod {
			continue
		}
		v := map[string]string{}
		for _, m := range pair.FindAllStringSubmatch(line, -1) {
			v[m[1]] = m[2] + m[3]
		}
		switch {
		case strings.Contains(line, theirPart):
			put(v["node"], v["plugin"], v["score"])
		case strings.Contains(line, theirSum):
			put(v["node"], "", v["score"])
		case strings.Contains(line, ourLine):
			put(v["node"], "", v["total"])
			for name, points := range v {
				if name[0] >= 'A' && name[0] <= 'Z' {
					put(v["node"], name, points)
				}
			}
		}
	}
}
