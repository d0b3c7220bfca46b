package fork

import (
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gantry-project/gantry/internal/control"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/control/garbagecollector"
	"github.com/gantry-project/gantry/internal/simulate/memstore"
)

// controllers are those of control.All that a fork runs, in the order in which they take turns. The
// others serve what a fork has not: certificates, addresses, files of volumes.
var controllers = []string{"serviceaccount", "nodelifecycle", "taintevict", "podgc", "cronjob", "job", "jobttl",
	"replicaset", "deployment", "replicationcontroller", "statefulset", "daemonset", "disruption", "resourcequota",
	"ephemeralvolume", "volumebinding", "attachdetach", "horizontalpodautoscaler"}

// never is longer than any simulation.
const never = 100 * 365 * 24 * time.Hour

// ownersFeed tells the garbage collector of changes.
type ownersFeed struct {
	feed      garbagecollector.Feed
	resources map[reflect.Type]schema.GroupVersionResource // of objects' types
}

// makeControllers makes the controllers, to be run by hand. Without heartbeats no node is found
// unreachable.
func (c *Cluster) makeControllers(o Options) error {
	meta, err := c.api.Metadata()
	if err != nil {
		return err
	}
	d := controllerruntime.ControllerContext{Client: c.api.Client(), Metadata: meta, Informers: c.informers,
		Recorder: c.log, Journal: c.log.SinkFor("controllers"), Now: c.Now,
		NodeMonitorGracePeriod: o.NodeMonitorGracePeriod}
	if !o.Heartbeats {
		d.NodeMonitorGracePeriod = never
	}
	for _, name := range controllers {
		i := slices.IndexFunc(control.All,
			func(r controllerruntime.ControllerDescriptor) bool { return r.Name == name })
		for _, q := range controllerruntime.QueuesOf(control.All[i].Constructor(d)) {
			c.controllers = append(c.controllers, q.Manual(c.Now))
		}
	}
	owners, feed := garbagecollector.NewFed(d)
	c.owners = &ownersFeed{feed, map[reflect.Type]schema.GroupVersionResource{}}
	for _, q := range controllerruntime.QueuesOf(owners) {
		c.controllers = append(c.controllers, q.Manual(c.Now))
	}
	return nil
}

// feed tells the garbage collector of a change.
func (c *Cluster) feed(change memstore.Change) {
	o := change.New
	if o == nil {
		o = change.Old
	}
	r, ok := c.owners.resources[reflect.TypeOf(o)]
	if !ok {
		if gvk, err := c.api.GVKOf(o); err == nil {
			if k, served := c.api.KindOf(gvk); served {
				r = gvk.GroupVersion().WithResource(k.Resource)
			}
		}
		c.owners.resources[reflect.TypeOf(o)] = r
	}
	if r.Resource == "" || r.Resource == "leases" || r.Resource == "events" {
		return
	}
	old, _ := change.Old.(metav1.Object)
	cur, _ := change.New.(metav1.Object)
	c.owners.feed(r, old, cur)
}
