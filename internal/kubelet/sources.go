package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
	"github.com/gantry-project/gantry/internal/kubelet/podsource"
	"github.com/gantry-project/gantry/internal/kubelet/podsource/declaredfeatures"
	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
)

// sources are the names of those this node listens to.
func (o *Options) sources() []string {
	var out []string
	if o.Config.StaticPodPath != "" {
		out = append(out, podsource.File)
	}
	if o.Config.StaticPodURL != "" {
		out = append(out, podsource.HTTP)
	}
	if !o.StaticPods.Standalone {
		out = append(out, podsource.API)
	}
	return out
}

// startSources starts all sources, each in a goroutine of its own. StaticPods Pods do not wait for
// an API server; Pods of the API wait until it has told of this node.
func (k *Kubelet) startSources(ctx context.Context, side func(func())) {
	c := k.opts.Config
	s := podsource.StaticOptions{Receiver: k.podConfig, Node: k.opts.NodeName, Rules: k.opts.StaticPods.Rules,
		Reporter: sourceReporter{k}}
	if c.StaticPodPath != "" {
		files := s
		files.Interval = c.FileCheckFrequency.Duration
		side(func() { podsource.WatchFiles(ctx, c.StaticPodPath, files) })
	}
	if c.StaticPodURL != "" {
		url := s
		url.Interval = c.HTTPCheckFrequency.Duration
		side(func() {
			podsource.PollURL(ctx, podsource.URL{Address: c.StaticPodURL, Header: header(c.StaticPodURLHeader)}, url)
		})
	}
	if k.opts.StaticPods.Standalone {
		klog.FromContext(ctx).Info("Running without an API server: only static Pods are run",
			"staticPodPath", c.StaticPodPath, "staticPodURL", c.StaticPodURL)
		return
	}
	side(func() { k.node.watch(ctx, k.nodeChanged) })
	side(func() {
		select {
		case <-k.node.synced:
			podsource.Watch(ctx, k.opts.Client, k.opts.NodeName,
				k.mirrorPods.Filter(declaredfeatures.Watch(k.podConfig,
					declaredfeatures.Deps{Declared: nodestatus.Declared(""), Event: k.events.Pod})))
		case <-ctx.Done():
		}
	})
	side(func() {
		select {
		case <-k.podConfig.Synced():
			k.mirrorPods.SourcesReady()
		case <-ctx.Done():
		}
	})
	side(func() { k.mirrorPods.Run(ctx) })
}

// nodeChanged brings up to date what depends on the Node object.
func (k *Kubelet) nodeChanged() {
	if n := k.node.get(); n != nil {
		k.csi.attachments.NodeChanged(n)
	}
	k.mirrorPods.Trigger()
	k.podWorkers.AllocatableChanged() // allocatable may have grown
}

func header(list map[string][]string) http.Header {
	out := http.Header{}
	for name, values := range list {
		for _, v := range values {
			out.Add(name, v)
		}
	}
	return out
}

// sourceReporter makes known what a source of static Pods has that cannot be run.
type sourceReporter struct{ kubelet *Kubelet }

func (t sourceReporter) node() journal.Ref {
	return journal.Ref{Kind: "Node", Name: t.kubelet.opts.NodeName}
}

// Refused tells of a bad manifest.
func (t sourceReporter) Refused(place string, err error) {
	message := err.Error()
	if !strings.Contains(message, place) {
		message = place + ": " + message
	}
	refused := journal.Refused{Reason: journal.StaticPodInvalid, Message: message}
	t.kubelet.opts.Journal.Put(t.node(), refused)
	var bad *static.InvalidPod
	if errors.As(err, &bad) { // who asks about the Pod is told too
		t.kubelet.opts.Journal.Put(journal.Ref{Namespace: bad.Namespace, Name: bad.Name}, refused)
	}
}

// DuplicateName tells of a Pod whose name another Pod of its source has.
func (t sourceReporter) DuplicateName(source string, p *v1.Pod) {
	message := fmt.Sprintf("Error validating pod %s_%s(%s) from %s due to duplicate pod name %q, ignoring", p.Name,
		p.Namespace, p.UID, source, p.Name)
	t.kubelet.events.Pod(p, v1.EventTypeWarning, "FailedValidation", message)
	t.kubelet.opts.Journal.Put(t.node(), journal.Refused{Reason: "FailedValidation", Message: message})
}

// UnknownFields tells of fields that were left out.
func (t sourceReporter) UnknownFields(place string, fields []string) {
	klog.Background().Info("The manifest has fields that are not known; they are ignored", "path", place,
		"fields", fields)
}

// discardStatuses is where statuses go when there is no API.
type discardStatuses struct{}

func (discardStatuses) SetPodStatus(*v1.Pod, v1.PodStatus) {}
func (discardStatuses) DeletePod(*v1.Pod)                  {}
func (discardStatuses) RemoveStatus(types.UID)             {}
