package nodepressure

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/pod"
)

// Pass is one walk through the decision: what was read, which thresholds are met, what was
// reclaimed, who is next and who went. Times are since the start.
type Pass struct {
	At         time.Duration   `json:"at"`
	Signals    []SignalLine    `json:"signals"`
	Thresholds []ThresholdLine `json:"thresholds"`
	Conditions []string        `json:"conditions,omitempty"`
	Target     *Target         `json:"target,omitempty"`
	Reclaimed  []ReclaimLine   `json:"reclaimed,omitempty"`
	Resolved   bool            `json:"resolved,omitempty"` // reclaiming was enough
	Ranked     []Place         `json:"ranked,omitempty"`
	Victim     *VictimLine     `json:"victim,omitempty"`
	Fruitless  string          `json:"fruitless,omitempty"`
}

// SignalLine is a signal as it was read.
type SignalLine struct {
	Signal    string `json:"signal"`
	Available int64  `json:"available"`
	Capacity  int64  `json:"capacity"`
}

// ThresholdLine is a threshold beside its signal.
type ThresholdLine struct {
	Signal  string        `json:"signal"`
	Value   string        `json:"value"`
	Amount  int64         `json:"amount"`            // of Value
	Wants   int64         `json:"wants,omitempty"`   // Amount and the minimum reclaim; 0: no minimum reclaim
	Grace   time.Duration `json:"grace,omitempty"`   // 0: a hard one
	Met     bool          `json:"met,omitempty"`     //
	Since   time.Duration `json:"since,omitempty"`   // it is met
	Left    time.Duration `json:"left,omitempty"`    // of the grace period
	Reclaim bool          `json:"reclaim,omitempty"` // met for its minimum reclaim alone
}

// Target is the threshold that Pods go for.
type Target struct {
	Signal   string `json:"signal"`
	Resource string `json:"resource"`
	Value    string `json:"value"`
}

// ReclaimLine is what was reclaimed before a Pod goes.
type ReclaimLine struct {
	What  string `json:"what"`
	Bytes int64  `json:"bytes"`
}

// Place is a Pod's place among those that may go.
type Place struct {
	Place    int    `json:"place"` // 1 goes first
	Pod      string `json:"pod"`
	QOS      string `json:"qosClass"`
	Priority int32  `json:"priority"`
	Measured bool   `json:"measured"`
	Use      int64  `json:"use"`
	Request  int64  `json:"request"`
	Over     int64  `json:"over"` // use less request
	Critical bool   `json:"critical,omitempty"`
	Why      string `json:"why"` // of the place, against the next one
}

// VictimLine is the Pod that goes.
type VictimLine struct {
	Pod     string        `json:"pod"`
	Place   int           `json:"place"`
	Grace   time.Duration `json:"grace"`
	Message string        `json:"message"` // of its status
}

func newPass(s *state, in eviction.In, d eviction.Decision) Pass {
	l := Pass{At: s.at}
	for _, signal := range sortedSignals(in.Observations) {
		o := in.Observations[signal]
		l.Signals = append(l.Signals, SignalLine{string(signal), o.Available, o.Capacity})
	}
	for _, t := range in.Config.Thresholds {
		o, seen := in.Observations[t.Signal]
		if !seen {
			continue
		}
		q := t.Value.Of(o.Capacity)
		x := ThresholdLine{Signal: string(t.Signal), Value: t.Value.String(), Amount: q.Value(), Grace: t.Grace}
		if t.MinReclaim != nil {
			more := t.MinReclaim.Of(o.Capacity)
			x.Wants = x.Amount + more.Value()
		}
		i := slices.IndexFunc(d.Met, func(m eviction.Met) bool {
			return m.Signal == t.Signal && m.Grace == t.Grace && m.Value.String() == t.Value.String()
		})
		if i >= 0 {
			since := in.Now.Sub(d.Met[i].Since)
			x.Met, x.Since, x.Left = true, since, max(0, t.Grace-since)
			x.Reclaim = o.Available >= x.Amount
		}
		l.Thresholds = append(l.Thresholds, x)
	}
	for _, c := range d.Conditions {
		l.Conditions = append(l.Conditions, string(c))
	}
	l.target(d)
	return l
}

func (l *Pass) target(d eviction.Decision) {
	if d.Fruitless != nil {
		l.Fruitless = d.Fruitless.Message()
	}
	if d.Target != nil {
		l.Target = &Target{string(d.Target.Signal), string(d.Resource), d.Target.Value.String()}
	}
}

// rank adds the Pods in their order, and the victim.
func (l *Pass) rank(s *state, in eviction.In, d eviction.Decision) {
	l.target(d)
	if d.Target == nil {
		return
	}
	order := eviction.Order(in.Config.Ranking, d.Target.Signal, s.Disks)
	for i, r := range d.Ranked {
		p := Place{Place: i + 1, Pod: name(r), QOS: string(pod.QOS(r.Pod)), Priority: priorityOf(r),
			Measured: r.Measured, Use: r.Use.Value(), Request: r.Request.Value(), Over: r.Over.Value(),
			Critical: r.Critical, Why: why(order, d.Ranked, i)}
		l.Ranked = append(l.Ranked, p)
	}
	if v := d.Victim; v != nil {
		l.Victim = &VictimLine{Pod: name(v.Ranked), Place: v.Place + 1, Grace: v.Grace, Message: v.Message}
	}
}

// why says what puts a Pod before the next one, or behind the one before for the last.
func why(order []eviction.Criterion, list []eviction.Ranked, i int) string {
	text := ""
	switch {
	case len(list) == 1:
		text = "the only one"
	case i+1 < len(list):
		text = "before " + list[i+1].Pod.Name + ": " + difference(order, list[i], list[i+1])
	default:
		text = "behind " + list[i-1].Pod.Name + ": " + reverse(order, list[i-1], list[i])
	}
	if list[i].Critical {
		text = "critical, never a victim; " + text
	}
	return text
}

// difference says by what a goes before b.
func difference(order []eviction.Criterion, a, b eviction.Ranked) string {
	by := eviction.Decides(order, a, b)
	switch {
	case by == "":
		return "equal, and younger"
	case !a.Measured && (by == eviction.Exceeding || by == eviction.Over):
		return "nothing is known of its use"
	}
	switch by {
	case eviction.Exceeding:
		return fmt.Sprintf("takes %s, more than it requests (%s)", quantity(a.Use), quantity(a.Request))
	case eviction.Priority:
		return fmt.Sprintf("priority %d is lower than %d", priorityOf(a), priorityOf(b))
	case eviction.Over:
		return fmt.Sprintf("%s %s, which is more than %s", overText(a), quantity(without(a.Over)), overOf(b))
	}
	return fmt.Sprintf("%s goes before %s", pod.QOS(a.Pod), pod.QOS(b.Pod))
}

// reverse says by what b goes after a.
func reverse(order []eviction.Criterion, a, b eviction.Ranked) string {
	switch by := eviction.Decides(order, a, b); {
	case by == "":
		return "equal, and older"
	case !a.Measured && (by == eviction.Exceeding || by == eviction.Over):
		return "of that one's use nothing is known"
	case by == eviction.Exceeding:
		return fmt.Sprintf("takes %s, not more than it requests (%s)", quantity(b.Use), quantity(b.Request))
	case by == eviction.Priority:
		return fmt.Sprintf("priority %d is higher than %d", priorityOf(b), priorityOf(a))
	case by == eviction.Over:
		return fmt.Sprintf("%s %s, which is less than %s", overText(b), quantity(without(b.Over)), overOf(a))
	}
	return fmt.Sprintf("%s goes after %s", pod.QOS(b.Pod), pod.QOS(a.Pod))
}

func overText(r eviction.Ranked) string {
	if r.Over.Sign() < 0 {
		return "takes less than it requests by"
	}
	return "takes more than it requests by"
}

func overOf(r eviction.Ranked) string {
	if r.Over.Sign() < 0 {
		return "less by " + quantity(without(r.Over))
	}
	return quantity(r.Over)
}

// size is an amount of bytes for people.
func size(n int64) string { return journal.Size(n) }

// Amount is an amount of a signal for people: bytes with a unit, inodes and process ids as they
// are.
func Amount(signal string, n int64) string {
	switch eviction.Signal(signal).Resource() {
	case eviction.ResourceInodes, eviction.ResourcePIDs:
		return fmt.Sprint(n)
	}
	return size(n)
}

// quantity is what counts of a Pod for people; its format tells bytes from what is counted.
func quantity(q resource.Quantity) string {
	if q.Format == resource.DecimalSI {
		return fmt.Sprint(q.Value())
	}
	return size(q.Value())
}

// without is the quantity without its sign.
func without(q resource.Quantity) resource.Quantity {
	if q.Sign() < 0 {
		q.Neg()
	}
	return q
}
