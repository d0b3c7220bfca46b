package podspec

import (
	"fmt"
	"reflect"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
	"github.com/gantry-project/gantry/internal/pod"
)

const (
	sidecarOnly      = "may not be set for init containers without restartPolicy=Always"
	notEphemeral     = "cannot be set for an Ephemeral Container"
	maxRestartRules  = 20
	maxRestartValues = 255
)

func (j *validator) containers(path *field.Path) {
	if len(j.spec.Containers) == 0 {
		j.Required(path, "")
		return
	}
	names := sets.New[string]()
	for i := range j.spec.Containers {
		c, at := &j.spec.Containers[i], path.Index(i)
		j.container(c, at)
		if names.Has(c.Name) {
			j.Add(field.Duplicate(at.Child("name"), c.Name))
		}
		names.Insert(c.Name)
		j.lifecycleAndProbes(c, at)
		j.restart(c, at)
	}
	j.hostPorts(j.spec.Containers, path)
}

func (j *validator) initContainers(path *field.Path) {
	names := sets.New[string]()
	for i := range j.spec.Containers {
		names.Insert(j.spec.Containers[i].Name)
	}
	for i := range j.spec.InitContainers {
		c, at := &j.spec.InitContainers[i], path.Index(i)
		j.container(c, at)
		if c.RestartPolicy != nil || len(c.RestartPolicyRules) == 0 {
			j.restart(c, at)
		} else {
			j.Required(at.Child("restartPolicy"), restartRulesWithoutPolicy) // the rules themselves are not validated
		}
		if names.Has(c.Name) {
			j.Add(field.Duplicate(at.Child("name"), c.Name))
		} else if c.Name != "" {
			names.Insert(c.Name)
		}
		// Init containers run one after the other: only ports of one container can conflict.
		j.hostPorts([]v1.Container{*c}, path)
		if pod.IsSidecar(c) {
			j.lifecycleAndProbes(c, at)
			continue
		}
		for _, no := range []struct {
			child string
			set   bool
		}{{"lifecycle", c.Lifecycle != nil}, {"livenessProbe", c.LivenessProbe != nil},
			{"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil}} {
			if no.set {
				j.Forbidden(at.Child(no.child), sidecarOnly)
			}
		}
		for i, p := range c.ResizePolicy {
			if p.RestartPolicy == v1.RestartContainer {
				j.Invalid(at.Child("resizePolicy").Index(i).Child("restartPolicy"), p.RestartPolicy,
					"must not be set to 'RestartContainer' for non-sidecar initContainers")
			}
		}
	}
}

// container validates what app and init containers have in common.
func (j *validator) container(c *v1.Container, path *field.Path) {
	if c.Name == "" {
		j.Required(path.Child("name"), "")
	} else {
		j.DNSLabel(path.Child("name"), c.Name)
	}
	if c.Image == "" {
		j.Required(path.Child("image"), "")
	}
	typed.RequiredOneOf(&j.Errors, path.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)
	j.ports(c.Ports, path.Child("ports"))
	j.env(c.Env, path.Child("env"))
	j.envFrom(c.EnvFrom, path.Child("envFrom"))
	j.mounts(c, path.Child("volumeMounts"))
	j.devices(c, path.Child("volumeDevices"))
	typed.RequiredOneOf(&j.Errors, path.Child("imagePullPolicy"), c.ImagePullPolicy, v1.PullAlways,
		v1.PullIfNotPresent, v1.PullNever)
	j.requirements(c.Resources, path.Child("resources"))
	j.resizePolicy(c.ResizePolicy, path.Child("resizePolicy"))
	j.security(c.SecurityContext, path.Child("securityContext"))
}

func (j *validator) ports(ports []v1.ContainerPort, path *field.Path) {
	names := sets.New[string]()
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		if p.Name != "" {
			messages := validation.IsValidPortName(p.Name)
			switch {
			case len(messages) > 0:
				j.InvalidEach(at.Child("name"), p.Name, messages)
			case names.Has(p.Name):
				j.Add(field.Duplicate(at.Child("name"), p.Name))
			default:
				names.Insert(p.Name)
			}
		}
		if p.ContainerPort == 0 {
			j.Required(at.Child("containerPort"), "")
		} else {
			j.InvalidEach(at.Child("containerPort"), p.ContainerPort, validation.IsValidPortNum(int(p.ContainerPort)))
		}
		if p.HostPort != 0 {
			j.InvalidEach(at.Child("hostPort"), p.HostPort, validation.IsValidPortNum(int(p.HostPort)))
		}
		typed.RequiredOneOf(&j.Errors, at.Child("protocol"), p.Protocol, v1.ProtocolSCTP, v1.ProtocolTCP,
			v1.ProtocolUDP)
	}
}

// hostPorts rejects a host port that two containers of the list use.
func (j *validator) hostPorts(list []v1.Container, path *field.Path) {
	seen := sets.New[string]()
	for i := range list {
		for k := range list[i].Ports {
			p := &list[i].Ports[k]
			if p.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			if seen.Has(key) {
				j.Add(field.Duplicate(path.Index(i).Child("ports").Index(k).Child("hostPort"), key))
			}
			seen.Insert(key)
		}
	}
}

const restartRulesWithoutPolicy = "must specify restartPolicy when restart rules are used"

// restart validates a container's restartPolicy and restartPolicyRules.
func (j *validator) restart(c *v1.Container, path *field.Path) {
	if c.RestartPolicy == nil {
		if len(c.RestartPolicyRules) > 0 {
			j.Required(path.Child("restartPolicy"), restartRulesWithoutPolicy)
		}
	} else {
		typed.Supported(&j.Errors, path.Child("restartPolicy"), *c.RestartPolicy, v1.ContainerRestartPolicyAlways,
			v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure)
	}
	at := path.Child("restartPolicyRules")
	if n := len(c.RestartPolicyRules); n > maxRestartRules {
		j.Add(field.TooMany(at, n, maxRestartRules))
	}
	for i := range c.RestartPolicyRules {
		r, at := &c.RestartPolicyRules[i], at.Index(i)
		typed.Supported(&j.Errors, at.Child("action"), r.Action, v1.ContainerRestartRuleActionRestart,
			v1.ContainerRestartRuleActionRestartAllContainers)
		if r.ExitCodes == nil {
			j.Required(at.Child("exitCodes"), "must be specified")
			continue
		}
		typed.Supported(&j.Errors, at.Child("exitCodes", "operator"), r.ExitCodes.Operator,
			v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(r.ExitCodes.Values); n > maxRestartValues {
			j.Add(field.TooMany(at.Child("exitCodes", "values"), n, maxRestartValues))
		}
	}
}

func (j *validator) resizePolicy(list []v1.ContainerResizePolicy, path *field.Path) {
	seen := sets.New[v1.ResourceName]()
	for i, p := range list {
		if seen.Has(p.ResourceName) {
			j.Add(field.Duplicate(path.Index(i), p.ResourceName))
		}
		seen.Insert(p.ResourceName)
		typed.RequiredOneOf(&j.Errors, path, p.ResourceName, v1.ResourceCPU, v1.ResourceMemory)
		typed.RequiredOneOf(&j.Errors, path, p.RestartPolicy, v1.NotRequired, v1.RestartContainer)
		if j.spec.RestartPolicy == v1.RestartPolicyNever && p.RestartPolicy != v1.NotRequired {
			j.Invalid(path, p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
	}
}

func (j *validator) ephemeralContainers(path *field.Path) {
	names, others := sets.New[string](), sets.New[string]()
	visitContainers(j.spec, func(c *v1.Container) {
		names.Insert(c.Name)
		others.Insert(c.Name)
	})
	for i := range j.spec.EphemeralContainers {
		e, at := &j.spec.EphemeralContainers[i], path.Index(i)
		c := (*v1.Container)(&e.EphemeralContainerCommon)
		j.container(c, at)
		j.Add(ValidateImageWhitespace(c, at)...)
		if names.Has(e.Name) {
			j.Add(field.Duplicate(at.Child("name"), e.Name))
		}
		names.Insert(e.Name)
		if e.TargetContainerName != "" && !others.Has(e.TargetContainerName) {
			j.Add(field.NotFound(at.Child("targetContainerName"), e.TargetContainerName))
		}
		j.ephemeralFields(e, at)
		for k := range c.VolumeMounts {
			m, at := &c.VolumeMounts[k], at.Child("volumeMounts").Index(k)
			if m.SubPath != "" {
				j.Forbidden(at.Child("subPath"), notEphemeral)
			}
			if m.SubPathExpr != "" {
				j.Forbidden(at.Child("subPathExpr"), notEphemeral)
			}
		}
	}
}

// ephemeralAllowed returns the fields that an ephemeral container may set.
func ephemeralAllowed() sets.Set[string] {
	return sets.New("Name", "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "VolumeDevices",
		"TerminationMessagePath",
		"TerminationMessagePolicy", "ImagePullPolicy", "SecurityContext", "Stdin", "StdinOnce", "TTY")
}

func (j *validator) ephemeralFields(e *v1.EphemeralContainer, path *field.Path) {
	allowed := ephemeralAllowed()
	v := reflect.ValueOf(e.EphemeralContainerCommon)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if allowed.Has(name) || v.Field(i).IsZero() {
			continue
		}
		r := []rune(name)
		r[0] = unicode.ToLower(r[0])
		j.Forbidden(path.Child(string(r)), notEphemeral)
	}
}
