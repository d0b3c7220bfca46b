package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Format is the version of the lines that are written.
const Format = 1

// Decision is one result of a scheduling cycle and all it was made from.
type Decision struct {
	Format int       `json:"format"`
	At     time.Time `json:"at"`
	Pod    *v1.Pod   `json:"pod"`
	// as made from the plugins' statuses and scores, before PostFilter; without the times of points
	Result    journal.Ruled   `json:"ruling"`
	Config    json.RawMessage `json:"config"` // KubeSchedulerConfiguration with the one profile of the Pod
	Choice    Choice          `json:"choice"`
	Extenders bool            `json:"extenders,omitempty"` // extenders filtered or scored, which is not recorded
	// of the Services and the controller that the Pod belongs to
	Selector  string               `json:"selector,omitempty"`
	Nominated map[string][]*v1.Pod `json:"promised,omitempty"` // nominated Pods by node
	Objects   Objects              `json:"objects"`
	Nodes     []snapshot.NodeState `json:"nodes"` // in the order they are looked at
}

// Choice is what else the result depends on.
type Choice struct {
	Percent  int32 `json:"percent"`            // of nodes to look at, as schedule.Sample
	AtLeast  int   `json:"atLeast,omitempty"`  // nodes to look at; 0: 100
	StartsAt int   `json:"startsAt,omitempty"` // place in the list of nodes to look from
	Pick     int   `json:"pick,omitempty"`     // which of the nodes that shared the top score was chosen
}

func (c Choice) sample() schedule.Sample {
	return schedule.Sample{Percent: c.Percent, AtLeast: c.AtLeast, StartsAt: c.StartsAt}
}

// Objects are those that plugins look up besides nodes and Pods. Around volumes they are those of
// the Pods and nodes of the decision, when the Pod has volumes that may need them.
type Objects struct {
	Namespaces  []*v1.Namespace                 `json:"namespaces,omitempty"` // names and labels
	Claims      []*v1.PersistentVolumeClaim     `json:"claims,omitempty"`
	Volumes     []*v1.PersistentVolume          `json:"volumes,omitempty"`
	Classes     []*storagev1.StorageClass       `json:"classes,omitempty"`
	CSINodes    []*storagev1.CSINode            `json:"csiNodes,omitempty"`
	Drivers     []*storagev1.CSIDriver          `json:"drivers,omitempty"`
	Capacities  []*storagev1.CSIStorageCapacity `json:"capacities,omitempty"`
	Attachments []*storagev1.VolumeAttachment   `json:"attachments,omitempty"`
	Devices     *Devices                        `json:"devices,omitempty"`
}

// Line is the decision as it is written to a file, with the end of the line.
func (d *Decision) Line() ([]byte, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("writing down the decision about Pod %s/%s: %w", d.Pod.Namespace, d.Pod.Name, err)
	}
	return append(b, '\n'), nil
}

// Read takes a line in. The error names the field.
func Read(line []byte) (*Decision, error) {
	d := &Decision{}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(d)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the line ends before its JSON does: the recording was cut off here")
	case errors.As(err, &kind):
		return nil, fmt.Errorf("%s: want %s, got a JSON %s", kind.Field, kind.Type, kind.Value)
	case err != nil:
		return nil, fmt.Errorf("not a decision: %w", err)
	case decoder.More():
		return nil, errors.New("more follows after the decision: one line holds one")
	}
	return d, d.check()
}

func (d *Decision) check() error {
	switch {
	case d.Format != Format:
		return fmt.Errorf("format: %d is not known, only %d is: replay with the gantry that recorded it", d.Format,
			Format)
	case d.Pod == nil || d.Pod.Name == "":
		return errors.New("pod: a Pod with a name is missing")
	case len(d.Pod.Spec.Containers) == 0:
		return errors.New("pod.spec.containers: a Pod has at least one")
	case len(d.Config) == 0:
		return errors.New("config: the profile's KubeSchedulerConfiguration is missing")
	case d.Result.Profile == "":
		return errors.New("ruling.profile: the profile's name is missing")
	case d.Choice.StartsAt < 0 || d.Choice.Pick < 0 || d.Choice.AtLeast < 0:
		return errors.New("choice: startsAt, pick and atLeast are not negative")
	case d.Result.Nodes != len(d.Nodes):
		return fmt.Errorf("nodes: %d are listed, but ruling.nodes says %d", len(d.Nodes), d.Result.Nodes)
	}
	for node, pods := range d.Nominated {
		for i, p := range pods {
			if p == nil {
				return fmt.Errorf("promised[%s][%d]: a Pod is missing", node, i)
			}
		}
	}
	return nil
}
