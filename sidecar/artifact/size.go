package artifact

// Size is how many bytes an artifact has, 0 when there is none of that name.
func (d *Dir) Size(ref string) int64 {
	if !valid(ref) {
		return 0
	}
	info, err := d.folder().Stat(ref)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}
