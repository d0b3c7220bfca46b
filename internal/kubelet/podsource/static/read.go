package static

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/pod"
)

// Annotations that tell where a Pod comes from (upstream: pkg/kubelet/types), beside
// pod.SourceAnnotation.
const (
	HashAnnotation = "kubernetes.io/config.hash"
	SeenAnnotation = "kubernetes.io/config.seen"
)

// Rules are the API's rules for Pods. Both are required.
type Rules struct {
	Default  func(*v1.Pod)                 // fills in what a manifest leaves open
	Validate func(*v1.Pod) field.ErrorList // of a Pod with its defaults
}

// Origin is where a manifest was read.
type Origin struct {
	Source   string // file or http
	Location string // path or URL
	Node     string // name of this node
}

// Manifest is one Pod that was read.
type Manifest struct {
	Pod           *v1.Pod
	Hash          string   // of its content: equal prints are equal manifests
	UnknownFields []string // fields that no Pod has; they were left out
}

// ParsePod reads a manifest of a single Pod, in JSON or YAML. now becomes the annotation
// kubernetes.io/config.seen.
func ParsePod(raw []byte, o Origin, r Rules, now time.Time) (Manifest, error) {
	plain, err := toJSON(raw)
	if err != nil {
		return Manifest{}, fmt.Errorf("couldn't parse as pod(%w)", err)
	}
	if err := isKind(plain, "Pod"); err != nil {
		return Manifest{}, fmt.Errorf("couldn't parse as pod(%w)", err)
	}
	return read(plain, o, r, now)
}

// Parse reads a manifest of a Pod, or of a list of Pods. ParsePod bad Pod spoils the list.
func Parse(raw []byte, o Origin, r Rules, now time.Time) ([]Manifest, error) {
	plain, err := toJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("couldn't parse as single or multiple pods: %w", err)
	}
	if isKind(plain, "Pod") == nil {
		m, err := read(plain, o, r, now)
		return []Manifest{m}, err
	}
	if err := isKind(plain, "PodList"); err != nil && isKind(plain, "List") != nil {
		return nil, fmt.Errorf("couldn't parse as single or multiple pods: %w", err)
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(plain, &list); err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	out := make([]Manifest, 0, len(list.Items))
	for i, item := range list.Items {
		m, err := read(item, o, r, now)
		if err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		out = append(out, m)
	}
	return out, nil
}

func toJSON(raw []byte) ([]byte, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("it is empty")
	}
	return yaml.YAMLToJSON(raw)
}

func isKind(plain []byte, want string) error {
	var head metav1.TypeMeta
	if err := json.Unmarshal(plain, &head); err != nil {
		return err
	}
	if head.Kind != want || head.APIVersion != "v1" {
		return fmt.Errorf("it is kind %q of apiVersion %q, want kind %s of apiVersion v1", head.Kind, head.APIVersion,
			want)
	}
	return nil
}

// InvalidPod is the error that a manifest cannot be run, where it says of which Pod it is.
type InvalidPod struct {
	Namespace, Name string // as the Pod would have them in the API
	Err             error
}

func (e *InvalidPod) Error() string { return e.Err.Error() }

// Unwrap is what is wrong with the manifest.
func (e *InvalidPod) Unwrap() error { return e.Err }

// read reads a manifest; its error is an InvalidPod where the manifest has a name.
func read(plain []byte, o Origin, r Rules, now time.Time) (Manifest, error) {
	m, err := readPod(plain, o, r, now)
	if err == nil {
		return m, nil
	}
	var head struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(plain, &head) != nil || head.Metadata.Name == "" {
		return m, err
	}
	return m, &InvalidPod{Namespace: cmp.Or(head.Metadata.Namespace, v1.NamespaceDefault),
		Name: podName(head.Metadata.Name, o.Node), Err: err}
}

// podName is what the API calls a static Pod: the name in its manifest, with its node's.
func podName(manifest, node string) string { return manifest + "-" + strings.ToLower(node) }

func readPod(plain []byte, o Origin, r Rules, now time.Time) (Manifest, error) {
	m := Manifest{Pod: &v1.Pod{}}
	unknown, err := kjson.UnmarshalStrict(plain, m.Pod)
	if err != nil {
		return Manifest{}, fmt.Errorf("couldn't parse as pod(%w)", err)
	}
	for _, u := range unknown {
		m.UnknownFields = append(m.UnknownFields, u.Error())
	}
	if m.Pod.Name == "" {
		return Manifest{}, errors.New("invalid pod: name is needed for the pod")
	}
	content, err := json.Marshal(m.Pod)
	if err != nil {
		return Manifest{}, fmt.Errorf("invalid pod: %w", err)
	}
	m.Hash = string(content)
	r.Default(m.Pod)
	setMetadata(m.Pod, content, o, now)
	if errs := r.Validate(m.Pod); len(errs) > 0 {
		return Manifest{}, fmt.Errorf("invalid pod: %v", errs)
	}
	if len(m.Pod.Spec.EphemeralContainers) > 0 {
		return Manifest{},
			fmt.Errorf("invalid pod: %v",
				field.ErrorList{field.Forbidden(field.NewPath("spec", "ephemeralContainers"),
					"cannot be set on create")})
	}
	what, err := APIReference(m.Pod)
	if err != nil {
		return Manifest{}, err
	}
	if what != "" {
		return Manifest{}, fmt.Errorf("static pods may not reference %s", what)
	}
	return m, nil
}

// setMetadata makes a Pod of a manifest this node's: name, uid, node, annotations, tolerations.
func setMetadata(p *v1.Pod, content []byte, o Origin, now time.Time) {
	if p.UID == "" {
		p.UID = uid(content, o)
	}
	p.Name = podName(p.Name, o.Node)
	if p.Namespace == "" {
		p.Namespace = v1.NamespaceDefault
	}
	p.Spec.NodeName = o.Node
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[HashAnnotation], p.Annotations[pod.SourceAnnotation], p.Annotations[SeenAnnotation] = string(p.UID),
		o.Source, now.Format(time.RFC3339Nano)
	if o.Source == "file" {
		tolerateNoExecute(p)
	}
	if p.Spec.Priority == nil {
		switch p.Spec.PriorityClassName { // the classes that every cluster has; others only the API server knows
		case "system-node-critical":
			p.Spec.Priority = ptr(pod.SystemCritical + 1000)
		case "system-cluster-critical":
			p.Spec.Priority = ptr(pod.SystemCritical)
		}
	}
	p.Generation = 0 // upstream's static Pods have none, so their statuses observe none
	p.Status = v1.PodStatus{Phase: v1.PodPending}
}

// tolerateNoExecute lets a Pod of a file tolerate every taint that would put it off the node.
func tolerateNoExecute(p *v1.Pod) {
	all := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	for _, t := range p.Spec.Tolerations {
		if t == all {
			return
		}
	}
	p.Spec.Tolerations = append(p.Spec.Tolerations, all)
}

// uid is the hash of content and place, in the shape of upstream's: 32 hexadecimal digits. It does
// not depend on defaults, which a newer kubelet may change.
func uid(content []byte, o Origin) types.UID {
	h := sha256.New()
	h.Write(content)
	fmt.Fprintf(h, "\x00%s\x00%s", o.Source, o.Location)
	if o.Source == "file" {
		fmt.Fprintf(h, "\x00%s", o.Node)
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)[:16]))
}

func ptr[T any](v T) *T { return &v }
