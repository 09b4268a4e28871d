# Load and verify a release of eigenveil in R: base R and jsonlite.
#
#   source("read_release.R"); release <- read_release("folder")
#   Rscript read_release.R folder
#
# A zip is unpacked first. The page is not rendered again and a signature is not checked:
# `eigenveil verify` does both.

.sha256 <- function(path) {
  if (exists("sha256sum", where = asNamespace("tools"), inherits = FALSE)) {
    return(unname(tools::sha256sum(path))) # R 4.5
  }
  sub(" .*", "", system2("sha256sum", shQuote(path), stdout = TRUE))
}

.check_sums <- function(folder) {
  lines <- strsplit(readLines(file.path(folder, "SHA256SUMS")), "  ", fixed = TRUE)
  named <- vapply(lines, `[`, "", 2)
  if (!setequal(named, c("release.json", "arrays.npz", "report.html"))) {
    stop("SHA256SUMS does not name the files of a release")
  }
  present <- setdiff(list.files(folder, all.files = TRUE, no.. = TRUE), c("SHA256SUMS", "SIGNATURE"))
  if (!setequal(present, named)) stop("a file is missing, or there is one more")
  for (line in lines) {
    if (!identical(.sha256(file.path(folder, line[2])), line[1])) {
      stop(line[2], " does not match SHA256SUMS: damaged or altered")
    }
  }
}

# One array of NumPy's format, version 1: a header of text, then 64-bit floats.
.read_npy <- function(path, shape) {
  file <- file(path, "rb")
  on.exit(close(file))
  if (!identical(readBin(file, "raw", 6), as.raw(c(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59)))) {
    stop("an array is not in NumPy's format")
  }
  version <- readBin(file, "raw", 2)
  size <- readBin(file, "integer", 1, size = if (version[1] == 1) 2 else 4, signed = version[1] != 1, endian = "little")
  header <- rawToChar(readBin(file, "raw", size))
  if (!grepl("'<f8'", header, fixed = TRUE)) stop("an array does not hold 64-bit floats")
  values <- readBin(file, "double", prod(shape) + 1, endian = "little")
  if (length(values) != prod(shape)) stop("an array has another shape than release.json says")
  if (length(shape) < 2) return(values)
  if (grepl("'fortran_order': True", header, fixed = TRUE)) return(array(values, shape))
  aperm(array(values, rev(shape)), rev(seq_along(shape))) # NumPy counts the last index fastest
}

read_release <- function(folder) {
  .check_sums(folder)
  statement <- jsonlite::fromJSON(file.path(folder, "release.json"))
  if (!identical(statement$schema, "eigenveil-release/1")) stop("not a release of schema 1")
  inside <- tempfile("arrays")
  on.exit(unlink(inside, recursive = TRUE))
  found <- utils::unzip(file.path(folder, "arrays.npz"), exdir = inside)
  if (!setequal(basename(found), paste0(names(statement$arrays), ".npy"))) {
    stop("release.json and arrays.npz name other arrays")
  }
  arrays <- lapply(names(statement$arrays), function(name) {
    .read_npy(file.path(inside, paste0(name, ".npy")), as.integer(statement$arrays[[name]]$shape))
  })
  names(arrays) <- names(statement$arrays)
  list(
    kind = statement$kind, mechanism = statement$mechanism, columns = statement$settings$feature_names,
    statement = statement$guarantee$sentence, budget = statement$guarantee$budget, arrays = arrays
  )
}

# Scores of rows, which are not private: treat them like the rows.
transform_rows <- function(release, rows) {
  if (release$kind != "pca") stop("only components have scores")
  with(release$arrays, {
    scaled <- sweep(sweep(rows, 2, mean), 2, scale, "/")
    unname(scaled %*% t(matrix(components, ncol = ncol(rows))))
  })
}

if (!interactive() && length(commandArgs(TRUE)) == 1 && sys.nframe() == 0) {
  release <- read_release(commandArgs(TRUE))
  cat(release$kind, "by", release$mechanism, "\n")
  cat(release$statement, "\n")
  str(release$arrays)
}
