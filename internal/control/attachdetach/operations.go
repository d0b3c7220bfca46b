package attachdetach

import (
	"strconv"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var operationSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{Name: "storage_operation_duration_seconds",
	StabilityLevel: metrics.BETA, Help: "Storage operation duration",
	Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}},
	[]string{"volume_plugin", "operation_name", "status", "migrated"})

func init() { legacyregistry.MustRegister(operationSeconds) }

// Operations of upstream's controller.
const (
	volumeAttach = "volume_attach"
	volumeDetach = "volume_detach"
)

// operation is one that an attacher was asked for.
type operation struct {
	volume, driver, name string
	migrated             bool
	began                time.Time
	failure              string // the last that was counted
}

// ended is an end of an operation: one that failed begins anew.
type ended struct {
	operation
	failed bool
	took   time.Duration
}

// operations are those that have not succeeded, by VolumeAttachment. The controller's one worker
// alone has them.
type operations map[string]operation

// begin notes what an attacher is asked for, unless it was.
func (o operations) begin(attachment string, asked operation) {
	if o[attachment].name != asked.name {
		o[attachment] = asked
	}
}

// observe is what became of the operations of a volume: an attacher says that it has done it, or
// why not, or says nothing for as long as it has time.
func (o operations) observe(volume string, found []*storagev1.VolumeAttachment, now time.Time) []ended {
	byName := map[string]*storagev1.VolumeAttachment{}
	for _, a := range found {
		byName[a.Name] = a
	}
	var out []ended
	for name, x := range o {
		if x.volume != volume {
			continue
		}
		done, failure := x.state(byName[name])
		took := now.Sub(x.began)
		switch {
		case done:
			out = append(out, ended{operation: x, took: took})
			delete(o, name)
			continue
		case byName[name] == nil: // not seen yet, or nobody wants it any more
			continue
		case failure != "" && failure != x.failure, took >= attachTimeout:
			out = append(out, ended{operation: x, failed: true, took: took})
			x.began = now
		}
		x.failure = failure
		o[name] = x
	}
	return out
}

// state tells whether the operation is done, or else why the attacher could not do it; a is nil
// when there is no VolumeAttachment.
func (x operation) state(a *storagev1.VolumeAttachment) (done bool, failure string) {
	var failed *storagev1.VolumeError
	switch {
	case x.name == volumeDetach:
		if a == nil {
			return true, ""
		}
		failed = a.Status.DetachError
	case a == nil:
		return false, ""
	case a.Status.Attached:
		return true, ""
	default:
		failed = a.Status.AttachError
	}
	if failed == nil {
		return false, ""
	}
	return false, failed.Time.UTC().Format(time.RFC3339) + " " + failed.Message
}

func count(all []ended) {
	for _, e := range all {
		status := "success"
		if e.failed {
			status = "fail-unknown"
		}
		operationSeconds.WithLabelValues(pluginOf(e.driver), e.name, status, strconv.FormatBool(e.migrated)).
			Observe(e.took.Seconds())
	}
}
