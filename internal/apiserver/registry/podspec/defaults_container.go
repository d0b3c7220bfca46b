package podspec

import (
	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
)

// defaultContainer sets the defaults of an app, init or ephemeral container.
func defaultContainer(c *v1.Container) {
	for i := range c.Ports {
		setIfEmpty(&c.Ports[i].Protocol, v1.ProtocolTCP)
	}
	for i := range c.Env {
		defaultEnv(&c.Env[i])
	}
	// parse the image only if needed: every object that is read from etcd passes here
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = PullPolicy(c.Image)
	}
	setIfEmpty(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	setIfEmpty(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

func defaultEnv(e *v1.EnvVar) {
	if e.ValueFrom == nil {
		return
	}
	if e.ValueFrom.FieldRef != nil {
		setIfEmpty(&e.ValueFrom.FieldRef.APIVersion, "v1")
	}
	if f := e.ValueFrom.FileKeyRef; f != nil {
		setDefault(&f.Optional, false)
	}
}

func defaultHTTPGet(h *v1.HTTPGetAction) {
	if h == nil {
		return
	}
	setIfEmpty(&h.Path, "/")
	setIfEmpty(&h.Scheme, v1.URISchemeHTTP)
}

func defaultProbe(p *v1.Probe) {
	if p == nil {
		return
	}
	setIfEmpty(&p.TimeoutSeconds, 1)
	setIfEmpty(&p.PeriodSeconds, 10)
	setIfEmpty(&p.SuccessThreshold, 1)
	setIfEmpty(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setDefault(&p.GRPC.Service, "")
	}
}

// PullPolicy returns the default imagePullPolicy of an image: Always for the tag latest or no tag,
// IfNotPresent otherwise, also for a digest without a tag and for a name that does not parse (the
// kubelet reports it).
func PullPolicy(image string) v1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return v1.PullIfNotPresent
	}
	tagged, hasTag := named.(reference.Tagged)
	_, hasDigest := named.(reference.Digested)
	if hasTag && tagged.Tag() == "latest" || !hasTag && !hasDigest {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}
