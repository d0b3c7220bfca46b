// Package imagelocality scores nodes that hold the Pod's images higher, the more so the larger the
// image and the more nodes have it.
//
// The second factor keeps Pods from piling up on the one node that pulled first.
// Pure.
package imagelocality

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// Name of the plugin.
	Name = "ImageLocality"

	mb                    int64 = 1024 * 1024
	minThreshold                = 23 * mb   // images together below this count nothing
	maxContainerThreshold       = 1000 * mb // per image: the score is full at this size
)

// Plugin implements the extension points of this package.
type Plugin struct{}

// New makes the plugin.
func New() *Plugin { return &Plugin{} }

var (
	_ framework.ScorePlugin = (*Plugin)(nil)
	_ framework.SignPlugin  = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

// Score sums size times spread of the images that are there, scaled to 0..100.
func (*Plugin) Score(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	if len(n.GetImageStates()) == 0 {
		return 0, nil
	}
	total := 1
	if w := schedule.SnapshotOf(state); w != nil {
		total = max(w.Len(), 1)
	}
	return score(p, n, total), nil
}

func score(p *v1.Pod, n framework.NodeInfo, total int) int64 {
	var count, sum int64
	images := n.GetImageStates()
	add := func(name string) {
		count++
		if s, ok := images[normalised(name)]; ok {
			sum += int64(float64(s.Size) * (float64(s.NumNodes) / float64(total)))
		}
	}
	for i := range p.Spec.InitContainers {
		add(p.Spec.InitContainers[i].Image)
	}
	for i := range p.Spec.Containers {
		add(p.Spec.Containers[i].Image)
	}
	for i := range p.Spec.Volumes {
		if im := p.Spec.Volumes[i].Image; im != nil {
			add(im.Reference)
		}
	}
	top := maxContainerThreshold * count
	sum = min(max(sum, minThreshold), top)
	return framework.MaxScore * (sum - minThreshold) / (top - minThreshold)
}

// ScoreExtensions has none: scores are absolute.
func (*Plugin) ScoreExtensions() framework.ScoreExtensions { return nil }

// normalised adds the tag that runtimes report for a name without one.
func normalised(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		return name + ":latest"
	}
	return name
}

// SignPod signs the image names.
func (*Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	var names []string
	for i := range p.Spec.InitContainers {
		names = append(names, normalised(p.Spec.InitContainers[i].Image))
	}
	for i := range p.Spec.Containers {
		names = append(names, normalised(p.Spec.Containers[i].Image))
	}
	return []framework.SignFragment{{Key: framework.ImageNamesSignerName, Value: names}}, nil
}
