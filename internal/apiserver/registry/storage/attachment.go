package storage

import (
	"math"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/core"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

// Limits of what a driver may report about an attachment, in bytes.
const (
	longestMetadata = 256 * 1024
	longestError    = 1024
)

func attachments() kind.Kind {
	spec, status := storagev1.VolumeAttachmentSpec{}.SwaggerDoc(), storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
	k := names("volumeattachments", "VolumeAttachment", row.Types[storagev1.VolumeAttachment, storagev1.VolumeAttachmentList]())
	k.Types.HasStatus = true
	k.Rules = row.Rules[storagev1.VolumeAttachment]{
		Check:       checkAttachment,
		CheckStatus: checkAttachmentStatus,
	}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), {Name: "Attacher", Type: "string", Format: "name", Description: spec["attacher"]},
			column.Def("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
			column.Def("Node", spec["nodeName"]), boolean("Attached", status["attached"]), column.Age(),
		},
		Row: row.Cells(func(v *storagev1.VolumeAttachment, o kind.RowOptions) []any {
			return []any{v.Name, v.Spec.Attacher, row.Value(v.Spec.Source.PersistentVolumeName), v.Spec.NodeName, v.Status.Attached, column.Since(v.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

const oneSource = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"

func checkAttachment(v, was *storagev1.VolumeAttachment) field.ErrorList {
	var f row.Findings
	s := &v.Spec
	source := spec().Child("source")
	switch name := s.Source.PersistentVolumeName; {
	case name == nil && s.Source.InlineVolumeSpec == nil:
		f.Required(source, oneSource)
	case name != nil && s.Source.InlineVolumeSpec != nil:
		f.Forbidden(source, oneSource)
	case name != nil && *name == "":
		f.Required(source.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")
	case name == nil:
		f.Add(core.ValidateInlineVolume(s.Source.InlineVolumeSpec, source.Child("inlineVolumeSpec"))...)
	}
	f.Subdomain(spec().Child("nodeName"), s.NodeName)
	if name := s.Source.PersistentVolumeName; name != nil {
		f.Subdomain(source.Child("persistentVolumeName"), *name)
	}
	f.Add(template.ValidateDriverName(s.Attacher, spec().Child("attacher"))...) // declared at v1.37.2's type: judged last
	if was != nil {
		f.SameUnshown(spec(), s, &was.Spec)
	}
	return f.List()
}

func checkAttachmentStatus(v, _ *storagev1.VolumeAttachment) field.ErrorList {
	var f row.Findings
	status := field.NewPath("status")
	size := 0
	for k, value := range v.Status.AttachmentMetadata {
		size += len(k) + len(value)
	}
	if size > longestMetadata {
		f.Add(field.TooLong(status.Child("attachmentMetadata"), "", longestMetadata))
	}
	for _, e := range []struct {
		child string
		err   *storagev1.VolumeError
	}{{"attachError", v.Status.AttachError}, {"detachError", v.Status.DetachError}} {
		if e.err == nil {
			continue
		}
		if len(e.err.Message) > longestError {
			f.Add(field.TooLong(status.Child(e.child, "message"), "", longestError))
		}
		if c := e.err.ErrorCode; c != nil && *c < 0 {
			f.Invalid(status.Child(e.child, "errorCode"), *c, validation.InclusiveRangeError(0, math.MaxInt32))
		}
	}
	return f.List()
}
