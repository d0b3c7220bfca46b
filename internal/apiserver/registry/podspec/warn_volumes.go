package podspec

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// volumes warns of deprecated and removed volume types.
func (w *warnings) volumes() {
	for i := range w.spec.Volumes {
		v, at := &w.spec.Volumes[i], w.path.Child("volumes").Index(i)
		for _, old := range []struct {
			set         bool
			child, text string
		}{
			{v.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
			{v.GitRepo != nil, "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"},
			{v.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
			{v.Flocker != nil, "flocker", "deprecated in v1.22, non-functional in v1.25+"},
			{v.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
			{v.Quobyte != nil, "quobyte", "deprecated in v1.22, non-functional in v1.25+"},
			{v.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
			{v.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
			{v.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
		} {
			if old.set {
				w.add(at.Child(old.child), "%s", old.text)
			}
		}
		if e := v.Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			w.out = append(w.out, WarnClaim(&e.VolumeClaimTemplate.Spec, at.Child("ephemeral", "volumeClaimTemplate",
				"spec"))...)
		}
	}
}

// projectedFile is a file of a volume, and its source where the volume has several.
type projectedFile struct{ path, source string }

func (f projectedFile) String() string {
	if f.source == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.source)
}

// conflictsWith reports whether two files cannot both exist: same path, or one is a directory of
// the other.
func (f projectedFile) conflictsWith(other projectedFile) bool {
	if f.path == "" || other.path == "" {
		return false
	}
	return strings.HasPrefix(f.path+"/", other.path+"/") || strings.HasPrefix(other.path+"/", f.path+"/")
}

func keyFiles(items []v1.KeyToPath, source string) []projectedFile {
	var out []projectedFile
	for _, k := range items {
		out = append(out, projectedFile{k.Path, source})
	}
	return out
}

func downwardFiles(items []v1.DownwardAPIVolumeFile, source string) []projectedFile {
	var out []projectedFile
	for _, d := range items {
		out = append(out, projectedFile{d.Path, source})
	}
	return out
}

// projectedFiles returns the files of one source of a projected volume.
func projectedFiles(p *v1.VolumeProjection) []projectedFile {
	switch {
	case p.ConfigMap != nil && p.ConfigMap.Items != nil:
		return keyFiles(p.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", p.ConfigMap.Name))
	case p.Secret != nil && p.Secret.Items != nil:
		return keyFiles(p.Secret.Items, fmt.Sprintf("Secret %q", p.Secret.Name))
	case p.DownwardAPI != nil && p.DownwardAPI.Items != nil:
		return downwardFiles(p.DownwardAPI.Items, "DownwardAPI")
	case p.ServiceAccountToken != nil:
		return []projectedFile{{p.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case p.ClusterTrustBundle != nil:
		name := ""
		switch b := p.ClusterTrustBundle; {
		case b.Name != nil:
			name = *b.Name
		case b.SignerName != nil:
			name = *b.SignerName
		}
		return []projectedFile{{p.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", name)}}
	case p.PodCertificate != nil:
		var out []projectedFile
		for _, f := range []projectedFile{
			{p.PodCertificate.CertificateChainPath, "PodCertificate chain"},
			{p.PodCertificate.KeyPath, "PodCertificate key"},
			{p.PodCertificate.CredentialBundlePath, "PodCertificate credential bundle"},
		} {
			if f.path != "" {
				out = append(out, f)
			}
		}
		return out
	}
	return nil
}

// overlaps warns of files of one volume that conflict.
func (w *warnings) overlaps() {
	for i := range w.spec.Volumes {
		v := &w.spec.Volumes[i]
		if m := v.ConfigMap; m != nil {
			w.conflictingFiles(v.Name, fmt.Sprintf("ConfigMap %q", m.Name), nil, keyFiles(m.Items, ""))
		}
		if s := v.Secret; s != nil {
			w.conflictingFiles(v.Name, fmt.Sprintf("Secret %q", s.SecretName), nil, keyFiles(s.Items, ""))
		}
		if d := v.DownwardAPI; d != nil {
			w.conflictingFiles(v.Name, "DownwardAPI", nil, downwardFiles(d.Items, ""))
		}
		if v.Projected == nil {
			continue
		}
		var before []projectedFile
		for k := range v.Projected.Sources {
			p := &v.Projected.Sources[k]
			if *p == (v1.VolumeProjection{}) {
				w.out = append(w.out, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
				continue
			}
			before = w.conflictingFiles(v.Name, "Projected", before, projectedFiles(p))
		}
	}
}

// conflictingFiles warns of each of the fresh files that conflicts with one before it, and returns
// all files compared so far.
func (w *warnings) conflictingFiles(volume, source string, before, fresh []projectedFile) []projectedFile {
	for _, f := range fresh {
		f.path = strings.TrimRight(f.path, "/")
		for _, other := range before {
			if !w.hasNext() {
				return before
			}
			if f.conflictsWith(other) {
				w.out = append(w.out, fmt.Sprintf("volume %q (%s): overlapping paths: %s with %s", volume, source, f,
					other))
			}
		}
		before = append(before, f)
	}
	return before
}
