package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/intake"
	"github.com/gantry-project/gantry/internal/kubelet/intake/changes"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
)

// sources are the names of those this node listens to.
func (o *Options) sources() []string {
	var out []string
	if o.Config.StaticPodPath != "" {
		out = append(out, intake.File)
	}
	if o.Config.StaticPodURL != "" {
		out = append(out, intake.HTTP)
	}
	if !o.Static.Alone {
		out = append(out, intake.API)
	}
	return out
}

// listen starts all sources, each in a goroutine of its own. Static Pods do not wait for an API server; Pods of the API wait until it has told of this node.
func (k *Kubelet) listen(ctx context.Context, side func(func())) {
	c := k.o.Config
	s := intake.Static{To: k.merge, Node: k.o.NodeName, Rules: k.o.Static.Rules, Tell: teller{k}}
	if c.StaticPodPath != "" {
		files := s
		files.Every = c.FileCheckFrequency.Duration
		side(func() { intake.Files(ctx, c.StaticPodPath, files) })
	}
	if c.StaticPodURL != "" {
		url := s
		url.Every = c.HTTPCheckFrequency.Duration
		side(func() {
			intake.Ask(ctx, intake.URL{Address: c.StaticPodURL, Header: header(c.StaticPodURLHeader)}, url)
		})
	}
	if k.o.Static.Alone {
		klog.FromContext(ctx).Info("Running without an API server: only static Pods are run", "staticPodPath", c.StaticPodPath, "staticPodURL", c.StaticPodURL)
		return
	}
	side(func() { k.node.watch(ctx, k.nodeChanged) })
	side(func() {
		select {
		case <-k.node.synced:
			intake.Watch(ctx, k.o.Client, k.o.NodeName, k.mirrors.Sift(changes.Watch(k.merge, changes.Deps{Declared: nodestatus.Declared(""), Event: k.events.Pod})))
		case <-ctx.Done():
		}
	})
	side(func() {
		select {
		case <-k.merge.Synced():
			k.mirrors.Settled()
		case <-ctx.Done():
		}
	})
	side(func() { k.mirrors.Run(ctx) })
}

// nodeChanged brings up to date what depends on the Node object.
func (k *Kubelet) nodeChanged() {
	k.mirrors.Look()
	k.pool.RoomChanged() // allocatable may have grown
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

// teller makes known what a source of static Pods has that cannot be run.
type teller struct{ k *Kubelet }

func (t teller) node() journal.Ref { return journal.Ref{Kind: "Node", Name: t.k.o.NodeName} }

// Refused tells of a bad manifest.
func (t teller) Refused(place string, err error) {
	message := err.Error()
	if !strings.Contains(message, place) {
		message = place + ": " + message
	}
	t.k.o.Journal.Put(t.node(), journal.Refused{Reason: "StaticPodInvalid", Message: message})
}

// Twin tells of a Pod whose name another Pod of its source has.
func (t teller) Twin(source string, p *v1.Pod) {
	message := fmt.Sprintf("Error validating pod %s_%s(%s) from %s due to duplicate pod name %q, ignoring", p.Name, p.Namespace, p.UID, source, p.Name)
	t.k.events.Pod(p, v1.EventTypeWarning, "FailedValidation", message)
	t.k.o.Journal.Put(t.node(), journal.Refused{Reason: "FailedValidation", Message: message})
}

// Unknown tells of fields that were left out.
func (t teller) Unknown(place string, fields []string) {
	klog.Background().Info("The manifest has fields that are not known; they are ignored", "path", place, "fields", fields)
}

// silent is where statuses go when there is no API.
type silent struct{}

func (silent) Set(*v1.Pod, v1.PodStatus) {}
func (silent) Finish(*v1.Pod)            {}
func (silent) Drop(types.UID)            {}
