package artifact

import "errors"

// RemoveAll deletes artifacts as Remove does; empty references name none.
func (d *Dir) RemoveAll(refs ...string) error {
	var errs []error
	for _, ref := range refs {
		if ref != "" {
			errs = append(errs, d.Remove(ref))
		}
	}
	return errors.Join(errs...)
}
