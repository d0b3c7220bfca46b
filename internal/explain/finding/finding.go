package finding

import (
	"cmp"
	"slices"
	"strings"
)

// Object names an API object.
type Object struct {
	Kind      string `json:"kind"`                // as in manifests: Pod, ConfigMap
	Namespace string `json:"namespace,omitempty"` // empty: not namespaced
	Name      string `json:"name"`
}

// String is KIND/NAME in lower case, with " -n NAMESPACE" where there is one, as for kubectl.
func (o Object) String() string {
	s := strings.ToLower(o.Kind) + "/" + o.Name
	if o.Namespace != "" {
		s += " -n " + o.Namespace
	}
	return s
}

func (o Object) lower() string { return strings.ToLower(o.Kind) }

// Severity orders findings: what hinders now, what will not work when it is needed, what is worth
// knowing.
type Severity int

// Severities, worst first.
const (
	Broken Severity = iota
	Threat
	Note
)

var severities = []string{"broken", "threat", "note"}

// MarshalText writes the severity as a word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(severities[s]), nil }

// UnmarshalText reads the word; an unknown one is a note.
func (s *Severity) UnmarshalText(text []byte) error {
	*s = Note
	if i := slices.Index(severities, string(text)); i >= 0 {
		*s = Severity(i)
	}
	return nil
}

// Stage is where in an object's life a finding stops it; earlier ones are mended first.
type Stage int

// Stages in the order in which a Pod passes them.
const (
	StageControl   Stage = iota // whoever works on the object does not
	StageCreation               // the object cannot be created
	StageReference              // an object that is named is missing
	StagePlacement              // no node
	StageNode                   // the node
	StageVolume                 // volumes
	StageImage                  // images
	StageRun                    // containers
	StageTraffic                // readiness and Services
	StageChange                 // roll-outs, disruption, the end
)

// Finding is one thing that is wrong.
type Finding struct {
	Code     string            `json:"code"`              // which rule, such as ReferenceMissing
	Severity Severity          `json:"severity"`          //
	Stage    Stage             `json:"-"`                 //
	Object   Object            `json:"object"`            // whose field is to blame
	Field    string            `json:"field,omitempty"`   // path in it, such as spec.schedule
	Value    string            `json:"value,omitempty"`   // what the field says
	Want     string            `json:"want,omitempty"`    // a value that would do; empty: not known
	Related  []Object          `json:"related,omitempty"` // what else plays a part
	Numbers  map[string]string `json:"numbers,omitempty"` // by name, as the API writes them
	Message  string            `json:"message"`           // one sentence or two
	Remedies []Remedy          `json:"remedies,omitempty"`

	NodeLabels []string `json:"-"` // key=value of a Pod's nodeSelector that the object sets
	Near       bool     `json:"-"` // Want is a name that is near to Value

	root Object // the object's outermost controller, or the object
}

// Root is the outermost controller of the finding's object as far as it is known, or the object.
func (f Finding) Root() Object {
	if f.root == (Object{}) {
		return f.Object
	}
	return f.root
}

// WithRoot returns the finding as one about an object of that outermost controller.
func (f Finding) WithRoot(root Object) Finding {
	f.root = root
	return f
}

// Remedy is one thing a person can do.
type Remedy struct {
	Say string   `json:"say"`
	Run []string `json:"run,omitempty"` // shell commands, in order; none: it needs a person's decision
	// the object of which gantry why says the reason; nil: the commands lead to none
	See *Object `json:"see,omitempty"`
	// the labels, as key=value, that it changes in a Pod's nodeSelector
	NodeLabels []string `json:"-"`
}

// SeeWhy is a remedy that leads to an object: what is wrong with that is the reason.
func SeeWhy(say string, o Object) Remedy {
	return Remedy{Say: say, Run: []string{"gantry why " + o.String()}, See: &o}
}

// atRest are codes of notes that tell of a rest that somebody chose: nothing is wrong, and nothing
// happens by itself.
var atRest = []string{"Suspended", "ScaledToZero"}

// AtRest reports whether the finding tells why nothing happens though nothing is wrong.
func (f Finding) AtRest() bool { return f.Severity == Note && slices.Contains(atRest, f.Code) }

// Names reports whether a text already has what the finding is about, and what would do.
func (f Finding) Names(text string) bool {
	if f.Message != "" && strings.Contains(text, strings.TrimSuffix(f.Message, ".")) {
		return true
	}
	if f.Want != "" && !strings.Contains(text, f.Want) && f.Code != "NoNodeCanHold" {
		return false
	}
	if f.Code == "ContainerExited" && strings.Contains(strings.ToLower(text),
		"container "+strings.ToLower(f.Value)+" ") {
		return true
	}
	switch {
	case f.Code == "PortMissing" && strings.Contains(text, "named "+f.Value+","),
		f.Code == "PodsRefused" && strings.Contains(text, "the API server refuses it"),
		f.Code == "Warning" && strings.Contains(text, f.warned()),
		f.Code == "ReferenceMissing" && len(f.Related) > 0 && f.Value != "" && saysMissing(text, f.Related[0]):
		return true
	}
	if f.Value != "" && strings.Contains(text, f.Value) {
		// a short value, such as 0 or true, stands in many texts: its field has to be there too
		return len(f.Value) > 5 || strings.Contains(text, f.Field[strings.LastIndex(f.Field, ".")+1:])
	}
	return false
}

// warned are the words of a warning event, without who said them when.
func (f Finding) warned() string {
	_, words, found := strings.Cut(f.Message, ": "+f.Value+": ")
	if !found || words == "" {
		return f.Message
	}
	return strings.TrimSuffix(words, ".")
}

// saysMissing reports whether a text says that an object does not exist.
func saysMissing(text string, o Object) bool {
	words := strings.Map(func(r rune) rune {
		if r == '"' || r == ',' || r == '.' || r == ';' {
			return -1
		}
		return r
	}, strings.ToLower(text))
	name := strings.ToLower(o.Name)
	for _, kind := range []string{strings.ToLower(o.Kind), spaced(o.Kind)} {
		if strings.Contains(words, "the "+kind+" "+name+" which does not exist") {
			return true
		}
	}
	return false
}

// spaced writes a kind as words in lower case: StorageClass as storage class.
func spaced(kind string) string {
	var b strings.Builder
	for i, r := range kind {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// Sort orders findings: worst first, then by stage, then by object and field.
func Sort(list []Finding) {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Stage, b.Stage),
			strings.Compare(a.Object.String(), b.Object.String()), strings.Compare(a.Field, b.Field),
			strings.Compare(a.Code, b.Code))
	})
}

// withoutOr lets the first remedy not begin with "or": there is none before it.
func (f *Finding) withoutOr() {
	if len(f.Remedies) > 0 {
		if rest, ok := strings.CutPrefix(f.Remedies[0].Say, "or "); ok {
			f.Remedies = slices.Clone(f.Remedies)
			f.Remedies[0].Say = rest
		}
	}
}
